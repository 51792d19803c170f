"""A real S3 server as a process of its own, as a context manager: to be killed, restarted, and made to fail."""

import contextlib
import json
import os
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.lab.machine.ports import HOST, free_ports
from tests.lab.machine.process import Programs
from tests.lab.machine.service import Service
from tests.lab.servers.s3_server import FAULTS

BUCKET = "lab"
_ROOT = Path(__file__).resolve().parents[3]
_START_S = 60.0


class ObjectStore(Service):
    """Run an S3 server with one bucket, ``lab``, until ``stop()`` or the end of the ``with`` block."""

    def __init__(self) -> None:
        self._programs = Programs("s3")
        self.folder = self._programs.folder
        (self.port,) = free_ports(1)
        self._lock = threading.RLock()  # nobody asks for faults while the server is restarted

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables by which every AWS client finds this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "lab",
            "AWS_SECRET_ACCESS_KEY": "lab",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> Self:
        """Start the server with what it held when it was killed, and wait until it answers."""
        command = [sys.executable, "-m", "tests.lab.servers.s3_server", str(self.port), str(self.folder / "s3"), BUCKET]
        (self.folder / "s3").mkdir(exist_ok=True)
        # The lab's processes run in the lab's folder; a module of the tests is found from the repository.
        command = ["env", f"PYTHONPATH={_ROOT}", *command]
        self._programs.start("s3", command).wait_until(self._answers, _START_S)
        return self

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        for server in self._programs.processes:
            server.kill()

    def restart(self) -> None:
        """Kill the server and start it again with what it held."""
        with self._lock:
            self.kill()
            self.start()

    def stop(self) -> None:
        """Kill the server and remove what it held; may be called twice."""
        self._programs.stop()

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Let nobody restart the server in the block."""
        with self._lock:
            yield

    def let_fail(self, path: str, kind: str, count: int = 1, **more: Any) -> None:
        """Let the next requests whose path contains ``path`` go wrong; see ``tests.lab.servers.s3_server``."""
        self._ask("POST", {"path": path, "kind": kind, "count": count, **more})

    def heal(self, path: str = "") -> None:
        """Let nothing more go wrong, or only not with paths that contain this."""
        self._ask("DELETE", {"path": path})

    def _ask(self, method: str, body: Mapping[str, Any]) -> None:
        request = urllib.request.Request(f"{self.endpoint}{FAULTS}", json.dumps(body).encode(), method=method)
        with self._lock, urllib.request.urlopen(request, timeout=60):
            pass


def attach_s3(**options: Any) -> None:
    """Let ``ObjectStoragePath`` open ``s3://…`` in this process by s3fs, as Amazon's provider does."""
    import s3fs
    from airflow.sdk.io.store import _STORE_CACHE, attach

    _STORE_CACHE.pop("s3", None)  # the server of an earlier test has gone
    s3fs.S3FileSystem.clear_instance_cache()  # a path without a connection is written by fsspec's own instance
    attach("s3", fs=s3fs.S3FileSystem(**options))


@contextlib.contextmanager
def reached(store: ObjectStore) -> Iterator[None]:
    """Let AWS clients of this process find the server."""
    before = {name: os.environ.get(name) for name in store.environment}
    os.environ.update(store.environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
