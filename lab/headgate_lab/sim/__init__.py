"""Virtual time: the shipped controllers and policies, in front of a modelled engine."""
