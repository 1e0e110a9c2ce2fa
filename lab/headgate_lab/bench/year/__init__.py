"""A year of batches, in virtual time, through the store and through the loop."""
