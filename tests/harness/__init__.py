"""Shared by several test packages: the back ends under test, and an independent check of every budget."""
