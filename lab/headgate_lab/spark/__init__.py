"""What the laboratory runs on Spark: jobs over items, traces as streams."""
