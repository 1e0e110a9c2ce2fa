"""One shedder, one operator and a queue, in virtual time (las-2020, section 5)."""
