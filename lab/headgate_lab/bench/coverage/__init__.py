"""Do 95 % intervals hold the truth on real data? By data set, grouping, kept share and number of rows."""
