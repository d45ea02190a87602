"""A sprint as tuples: an emitter, its yools, and the command `python -m examples.sprint`. `docs/sprint.md` runs it.

Copy this folder into a project of your own as `sprint`, and it is `python -m sprint`.
"""
