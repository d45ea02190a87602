"""Work: the catalog of yools, the tuple space and the workers that run its tuples."""
