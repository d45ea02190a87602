"""The orchestrator in the middle of its migration: ten flags choose between the old path and the new one."""
