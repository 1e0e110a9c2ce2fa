"""Fair shares: how near to the optimum, how fast, and at what price."""
