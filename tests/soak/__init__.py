"""Long runs that are no part of the default suite: `make soak`."""
