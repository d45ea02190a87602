"""Words everyone uses, and the journal."""
