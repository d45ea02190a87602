"""The store in a PostgreSQL database (decision 122)."""
