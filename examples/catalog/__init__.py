"""An AGENTS.md and code that declare yools: see docs/catalog.md."""
