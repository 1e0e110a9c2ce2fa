"""`hg.guard` on Spark: the call, the task in a worker, the run on the driver."""
