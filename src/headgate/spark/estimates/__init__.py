"""Estimates with error bars, as Spark SQL."""
