"""Injected kills, power cuts, disk errors, damaged files and mixed load: `python -m tests.torture`."""
