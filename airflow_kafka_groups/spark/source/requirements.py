"""The Python requirements of the source, checked first: an executor without them reports its name and the remedy.

Spark imports the source on each executor to unpickle its tasks, and shows the error.
"""

from __future__ import annotations

import importlib.util
import socket
import sys

LIBRARIES = ("kio", "aiokafka", "pyarrow")


def check_requirements() -> None:
    """Raise ``ImportError`` naming the machine, the Python, the missing libraries and the remedy."""
    missing = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{sys.executable} on {socket.gethostname()} has no {', '.join(missing)}: the data source kafka_groups "
            f"needs {', '.join(LIBRARIES)} in the Python of the driver and of every executor (PYSPARK_PYTHON): "
            "install them, use an image that has them, or hand over a packed environment by --archives"
        )
