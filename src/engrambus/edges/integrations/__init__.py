"""The clients people already use: their hooks answered, their configuration written and taken back.

Nothing is imported here: `engrambus hook` is started anew for every event, and its reader waits.
"""
