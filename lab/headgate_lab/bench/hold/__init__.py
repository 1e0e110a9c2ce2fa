"""How a target is held on Spark: loads, bursts, traces, outages, and what else one could do."""
