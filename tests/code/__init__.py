"""How well inline code is told from prose, on real text."""
