"""Search by meaning, with the real model."""
