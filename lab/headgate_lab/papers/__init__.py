"""What the papers have and the product does not ship: reproductions, twins, bounds. One room a paper."""
