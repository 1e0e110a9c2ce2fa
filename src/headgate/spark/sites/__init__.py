"""`hg.Site` on Spark: gates that share cores, links between fragments, results."""
