"""The Python data source ``kafka_groups``: committed offsets of consumer groups as rows of a Spark DataFrame.

Spark imports it on each executor to unpickle its tasks, and shows the error: what is missing, where, and the remedy.
"""

_LIBRARIES = ("kio", "aiokafka", "re2", "pyarrow")


def _check_requirements() -> None:
    import socket
    import sys
    from importlib.util import find_spec

    if missing := [name for name in _LIBRARIES if find_spec(name) is None]:
        raise ImportError(
            f"{sys.executable} on {socket.gethostname()} has no {', '.join(missing)}: the data source kafka_groups "
            f"needs {', '.join(_LIBRARIES)} in the Python of the driver and of every executor (PYSPARK_PYTHON): "
            "install them, use an image that has them, or hand over a packed environment by --archives"
        )


_check_requirements()

from airflow_kafka_groups.spark.source.data_source import KafkaGroupsDataSource, register  # noqa: E402 - checked before

__all__ = ["KafkaGroupsDataSource", "register"]
