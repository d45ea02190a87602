"""A small orchestrator before, during and after its migration onto the bus; `docs/migration.md` tells the story."""
