"""Do 95 % intervals hold the truth on real data? By data set, query and number of rows."""
