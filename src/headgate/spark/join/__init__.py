"""`hg.join` on Spark: the call, packing, the stateful operator, the run on the driver."""
