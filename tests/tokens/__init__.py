"""The token estimate, measured with real tokenizers. `python -m tests.tokens` prints the table."""
