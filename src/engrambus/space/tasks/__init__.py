"""Tasks that agents and people do themselves: tuples that no worker has code for (decision 113)."""

from engrambus.space.tasks.listing import Task, TaskState, live_tasks, read_task
from engrambus.space.tasks.rules import (
    MAX_TITLE_CHARS,
    PERSON,
    TASK_RUN,
    TaskTerms,
    add_task,
    cancel_task,
    check_may_change,
    claim_task,
    finish_task,
    give_task,
    release_tasks,
    renew_tasks,
)

__all__ = [
    "MAX_TITLE_CHARS",
    "PERSON",
    "TASK_RUN",
    "Task",
    "TaskState",
    "TaskTerms",
    "add_task",
    "cancel_task",
    "check_may_change",
    "claim_task",
    "finish_task",
    "give_task",
    "live_tasks",
    "read_task",
    "release_tasks",
    "renew_tasks",
]
