"""The orchestrator after its migration: it puts a tuple and waits; workers run the steps."""
