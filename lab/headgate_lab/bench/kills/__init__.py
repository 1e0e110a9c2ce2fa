"""A driver under load that is killed again and again, and what its queries lost and doubled."""
