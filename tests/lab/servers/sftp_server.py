"""A real SFTP server, asyncssh's, in a thread of the tests' own process, as a context manager."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from pathlib import Path
from typing import Any, Self

import asyncssh

from tests.lab.machine.ports import HOST

_USER = "lab"
_WAIT_S = 30.0
_ROOM = 100_000


class _Open(asyncssh.SSHServer):
    """Lets everybody in: it listens on the loopback interface only, for some seconds."""

    def __init__(self, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Remember whom to hang up on."""
        self._connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        """Ask for no password and no key."""
        return False


class WithoutLinks(asyncssh.SFTPServer):
    """A server whose disk has no hard links."""

    def link(self, oldpath: bytes, newpath: bytes) -> None:
        """Refuse."""
        raise asyncssh.SFTPOpUnsupported("Operation not permitted")


class Full(asyncssh.SFTPServer):
    """A server whose disk is full after the first 100 kB of a file."""

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write what there is room for."""
        if offset + len(data) > _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written: int = super().write(file_obj, offset, data)  # type: ignore[assignment]
        return written


class SftpServer:
    """Serve a folder of this machine until the end of the ``with`` block.

    :param kind: what answers; asyncssh's own makes hard links.
    """

    def __init__(self, folder: Path, kind: type[asyncssh.SFTPServer] = asyncssh.SFTPServer) -> None:
        self.folder = folder
        self.port = 0
        self._kind = kind
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: list[asyncssh.SSHServerConnection] = []

    def __enter__(self) -> Self:
        asyncssh.set_log_level(logging.WARNING)  # clients hang up when pytest has closed what it logs to
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    def start(self) -> None:
        """Answer, at the port as before if it was stopped."""
        self._acceptor = self._run(self._listen())
        self.port = self._acceptor.get_port()

    def stop(self) -> None:
        """Hang up, and answer nobody any more; may be called twice."""
        if self._acceptor is not None:
            self._run(self._close(self._acceptor))
            self._acceptor = None

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments by which sshfs reaches it, and nothing of this user's own settings and keys."""
        own: dict[str, Any] = {"config": None, "client_keys": None, "agent_path": None, "skip_instance_cache": True}
        return {"host": HOST, "port": self.port, "username": _USER, **own}

    async def _listen(self) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            HOST,
            self.port,
            server_factory=lambda: _Open(self._connections),
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=lambda channel: self._kind(channel, chroot=os.fsencode(self.folder)),
        )

    async def _close(self, acceptor: asyncssh.SSHAcceptor) -> None:
        acceptor.close()
        for connection in self._connections:
            connection.abort()
        await acceptor.wait_closed()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)


def sftp_path(server: SftpServer, folder: str = "kafka") -> Any:
    """Return a folder of the server as workers reach it: by a connection of its own, through Airflow and sshfs."""
    from airflow.sdk import ObjectStoragePath
    from airflow.sdk.io import attach
    from sshfs import SSHFileSystem

    fs = SSHFileSystem(**server.options)
    conn_id = f"sftp{id(fs)}"  # Airflow keeps the first one of each id, and with it this one
    attach(protocol="sftp", conn_id=conn_id, fs=fs)
    return ObjectStoragePath(f"sftp://{conn_id}@/{folder}")
