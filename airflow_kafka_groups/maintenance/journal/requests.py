"""Which recorded runs are tries of a request. Pure."""

from __future__ import annotations

_EVERY_TASK = "/-1"
"""How the name of a task ends that is not mapped, or that stands for all tasks of a mapped one."""


def is_try_of(recorded: str, request_id: str) -> bool:
    """Return whether a run is a try of a request.

    Earlier versions named a mapped task with its place in the mapping: these were tries of what is one request now.

    :param recorded: the ``request_id`` of the run.
    """
    if recorded == request_id:
        return True
    name, _, place = recorded.rpartition("/")
    return place.isdecimal() and request_id.endswith(_EVERY_TASK) and f"{name}{_EVERY_TASK}" == request_id
