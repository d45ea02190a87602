"""Editors and coding agents: their hooks are answered, their configuration is written and restored.

Nothing is imported here: a client starts `engrambus hook` for every event and waits for it.
"""
