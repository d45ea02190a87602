"""The tables of what the team knows: how facts change them, and how they are read."""
