"""The Airflow Variable that stops deletions."""

from __future__ import annotations

STOP_VARIABLE = "kafka_groups_stop"
"""Its name, unless an operator or a command names another one."""

_GO_ON = frozenset({"", "0", "false", "no", "off"})


def why_variable_stops(name: str | None) -> str | None:
    """Return why an Airflow Variable stops deletions, ``None`` if it does not exist or says no.

    An error, or a value that is neither yes nor no, stops them: every doubt keeps a group. Airflow 3.3 only logs the
    errors of its secrets backends, and then says that there is no such Variable, so they are asked once more.

    :param name: the Variable; ``None`` looks at none.
    """
    if name is None:
        return None
    from airflow.sdk import Variable

    from airflow_kafka_groups.hooks.airflow_lookups import why_variable_unclear

    try:
        value = Variable.get(name, default=None)
        why = why_variable_unclear(name) if value is None else None
    except Exception as exc:  # noqa: BLE001  # whatever the secrets backends raise
        why = type(exc).__name__
    if why is not None:
        return f"the Airflow Variable {name!r} could not be read: {why}"
    if value is None or str(value).strip().lower() in _GO_ON:
        return None
    return f"the Airflow Variable {name!r} is set"
