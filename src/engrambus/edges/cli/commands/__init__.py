"""The commands that need code of their own: overrides of operations' commands, and commands without an operation."""
