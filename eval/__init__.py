"""How well the bus finds things: commits, docstrings and conversations that the user supplies, beside baselines."""
