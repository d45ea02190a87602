"""The store of a team: journal and tables in a PostgreSQL database, shared by many projects (decision 122)."""
