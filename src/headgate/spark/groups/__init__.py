"""Gates that draw rows by the groups of their own batch, and gates in front of a join."""
