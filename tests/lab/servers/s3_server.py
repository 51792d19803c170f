"""An S3 server: moto's, with what a store promises and moto does not keep: conditions that hold, and objects that stay.

``python -m tests.lab.servers.s3_server PORT FOLDER BUCKET``. Moto checks ``If-None-Match`` and stores in two steps, so
that of two writers at once both may win, and it keeps objects in memory. Here a lock makes one step of it, and each
object is on the disk before it can be seen: a server killed by SIGKILL and started again has everything that it ever
showed.

What goes wrong is asked for by rules: ``POST /_faults`` adds one, ``DELETE /_faults`` removes those of a path. A rule
concerns the next ``count`` requests whose path or query contains ``path``:

- ``error``: answer with ``status``, without any effect; ``error_after``: the same, after the effect. ``code`` is S3's;
  where it is empty, the answer is a page, as that of a proxy which has lost the server.
- ``cut``: hang up after the effect, without an answer.
- ``slow``: answer after ``seconds``.
"""

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import unquote

FAULTS = "/_faults"
_CHANGES = ("put_object", "delete_object", "copy_object")
_BOTH = (FileExistsError, IsADirectoryError, NotADirectoryError)
"""What a disk says of the empty object of a folder, and of an object whose name is that of a folder, too."""


def keep_on_disk(folder: Path, bucket: str) -> None:
    """Let moto's S3 change objects one at a time, on the disk first, and load what is there already."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import S3Backend, s3_backends
    from moto.s3.responses import S3Response

    lock = threading.RLock()
    backend: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    backend.create_bucket(bucket, "us-east-1")
    for file in sorted((folder / bucket).rglob("*")):
        if file.is_file():
            backend.put_object(bucket, file.relative_to(folder / bucket).as_posix(), file.read_bytes())
    put, delete = S3Backend.put_object, S3Backend.delete_object

    def put_on_disk(self: Any, bucket_name: str, key_name: str, value: bytes, *more: Any, **named: Any) -> Any:
        path = folder / bucket_name / key_name
        part = folder / f"{threading.get_ident()}.tmp"
        part.write_bytes(value)
        with contextlib.suppress(*_BOTH):  # after a restart, there is none
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part, f"{path}/" if key_name.endswith("/") else path)
        return put(self, bucket_name, key_name, value, *more, **named)

    def delete_on_disk(self: Any, bucket_name: str, key_name: str, *more: Any, **named: Any) -> Any:
        with contextlib.suppress(*_BOTH):  # a key that only begins the names of others is no object
            (folder / bucket_name / key_name).unlink(missing_ok=True)
        return delete(self, bucket_name, key_name, *more, **named)

    def one_at_a_time(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def locked(self: Any, *arguments: Any, **named: Any) -> Any:
            with lock:
                return method(self, *arguments, **named)

        return locked

    for name, method in {"put_object": put_on_disk, "delete_object": delete_on_disk}.items():
        setattr(S3Backend, name, method)
    for name in _CHANGES:
        setattr(S3Response, name, one_at_a_time(getattr(S3Response, name)))


class Faults:
    """The WSGI application that lets requests go wrong by rules, before or after the one it wraps."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._rules: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == FAULTS:
            return self._change(environ, start_response)
        rule = self._next(f"{environ['PATH_INFO']}?{unquote(environ['QUERY_STRING'])}")
        if rule is None:
            return self._app(environ, start_response)
        if rule["kind"] == "slow":
            time.sleep(rule["seconds"])
            return self._app(environ, start_response)
        if rule["kind"] != "error":
            b"".join(self._app(environ, lambda *ignored: None))
        if rule["kind"] == "cut":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        usual = {403: "AccessDenied", 503: "ServiceUnavailable"}.get(rule.get("status", 500), "InternalError")
        code = rule.get("code", usual)
        page = "default backend - 404"
        body = (f"<Error><Code>{code}</Code><Message>as asked for</Message></Error>" if code else page).encode()
        length = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start_response(f"{rule.get('status', 500)} {code or usual}", length)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _change(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self._lock:
            if environ["REQUEST_METHOD"] == "POST":
                self._rules.append(json.loads(body))
            elif environ["REQUEST_METHOD"] == "DELETE":
                path = json.loads(body)["path"]
                self._rules = [rule for rule in self._rules if path not in rule["path"]]
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    def _next(self, path: str) -> dict[str, Any] | None:
        with self._lock:
            rule = next((rule for rule in self._rules if rule["path"] in path), None)
            if rule is not None:
                rule["count"] -= 1
                if rule["count"] <= 0:
                    self._rules.remove(rule)
            return rule


def main(port: int, folder: Path, bucket: str) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    keep_on_disk(folder, bucket)
    app = Faults(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
