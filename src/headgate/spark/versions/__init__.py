"""Where Spark 4.0, 4.1, 4.2 and 4.3 differ: the only room that asks which Spark this is."""
