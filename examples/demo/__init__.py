"""A demo of about a minute: an architect and three programmers review a repository over the bus.

`engrambus demo` runs it. No model is called: the agents' texts are scripted. The repository, the lines they point at,
the budgets, the refusals and the token counts are real, and every call goes through the operations that agents use.
"""
