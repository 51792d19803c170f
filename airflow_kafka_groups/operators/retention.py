"""The former module of ``PruneFilesOperator``, kept for existing DAGs."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a public name of ``operators.file_pruning``, with a deprecation warning."""
    from airflow_kafka_groups.operators import file_pruning

    if name != "PruneFilesOperator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("import PruneFilesOperator from airflow_kafka_groups.operators.file_pruning", stacklevel=2)
    return file_pruning.PruneFilesOperator
