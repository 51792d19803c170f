"""Where a client may be used: in the process and the event loop in which it was opened, until it is closed.

A fork shares the sockets: each process would take the answers of the other one for its own. The connections of another
loop get their answers in that one, or never if it is closed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import MutableMapping
from typing import Any

from airflow_kafka_groups.exceptions import ClientClosedError, ConfigurationError

_OPENED = "`async with AdminClient(config) as admin:`"


class Home:
    """The process and the event loop of a client."""

    def __init__(self) -> None:
        self._closed = False
        self.place: tuple[int, asyncio.AbstractEventLoop] | None = None
        """The process id and the loop in which the client was opened; ``None`` before."""

    def open(self, *of_there: MutableMapping[Any, Any] | set[Any]) -> None:
        """Note where the client is opened.

        :param of_there: its connections, which are forgotten if the loop in which it was opened before has ended
            without closing it: nothing can be sent or heard by them, nor can they be closed.

        Raises what ``require`` raises where it is open elsewhere: the connections would be those of there.
        """
        if self.place is not None and not self._closed:
            if self.place[1].is_closed():
                for each in of_there:
                    each.clear()
            else:
                self.require()
        self._closed, self.place = False, (os.getpid(), asyncio.get_running_loop())

    def close(self) -> bool:
        """Note that the client is closed where its connections are those of this process; return whether they are."""
        is_here = self.place is None or self.place[0] == os.getpid()
        self._closed = self._closed or is_here
        return is_here

    def require(self) -> None:
        """Raise ``ConfigurationError`` for a client that is not open, or was opened in another place."""
        if self.place is None:  # it knows no broker, so that calls would wait for one until their deadline
            raise ConfigurationError("client", None, f"it is not open: call it inside of {_OPENED}")
        process, loop = self.place
        for where, is_other in (
            ("process (a fork)", process != os.getpid()),
            ("event loop", loop is not asyncio.get_running_loop()),
        ):
            if is_other:
                remedy = f"open one of its own in each: {_OPENED} in this {where}"
                raise ConfigurationError("client", None, f"it was opened in another {where}; {remedy}")

    def require_open(self) -> None:
        """Raise ``ClientClosedError`` after the client was closed, and what ``require`` raises."""
        self.require()
        if self._closed:
            raise ClientClosedError
