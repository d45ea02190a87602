"""Engrams: schemas, rules and hash keys."""
