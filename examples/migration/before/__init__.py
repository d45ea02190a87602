"""The orchestrator as it was: a dict of steps, a loop, and its state in a JSON file."""
