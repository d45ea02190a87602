"""The messages between a parent and its children."""
