"""How work moves: the catalog of what can be done."""
