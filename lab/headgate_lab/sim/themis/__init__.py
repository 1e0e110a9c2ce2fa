"""A federation of nodes in virtual time (themis-2016, section 7)."""
