"""Two use cases on a real git history: a team refactors (`refactor`), and a team reviews a commit (`review`).

No model is called: the agents are scripted. What they read, write and are refused is real.
"""
