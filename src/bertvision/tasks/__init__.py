"""What is asked: tasks, their examples, and token windows made from them."""

from bertvision.tasks.examples import Answer, Examples, Questions, Texts
from bertvision.tasks.load import TASKS, TaskData, load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.task import Task, TaskKind

__all__ = [
    "TASKS",
    "Answer",
    "Examples",
    "OwnColumns",
    "Questions",
    "Task",
    "TaskData",
    "TaskKind",
    "Texts",
    "load_task",
]
