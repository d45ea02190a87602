"""Adapters to systems that others make; each needs packages that are installed with an extra."""
