"""How fast the bus is, as ratios to the raw limit and to its peers, measured in one run."""
