"""From a group's moments to an interval: formulas that are SQL on Spark and arrays in the laboratory."""
