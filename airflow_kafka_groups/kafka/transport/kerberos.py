"""Kerberos logins by a connection's own keytab and principal; aiokafka takes whatever ticket the process has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

from aiokafka.conn import SaslGSSAPIAuthenticator

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.transport.security import SaslConfig

_NO_LAYER = b"\x01"
"""The security layer that is chosen: none, since TLS protects the connection where that is wanted (RFC 4752, 3.1)."""


def require_kerberos(sasl: SaslConfig) -> None:
    """Raise ``ConfigurationError`` if this process lacks the package or the keytab for a Kerberos login."""
    if find_spec("gssapi") is None:
        raise ConfigurationError("sasl.mechanism", sasl.mechanism, "Kerberos needs a package: pip install gssapi")
    if sasl.kerberos_keytab and not os.access(sasl.kerberos_keytab, os.R_OK):
        remedy = f"cannot be read on {os.uname().nodename}: put it at this path on each machine that connects"
        raise ConfigurationError("sasl.kerberos.keytab", sasl.kerberos_keytab, remedy)


class KerberosAuthenticator(SaslGSSAPIAuthenticator):  # type: ignore[misc]  # aiokafka has no type information
    """An authenticator that logs in by the keytab of the settings, as their principal.

    :param sasl: the settings. Without a keytab, Kerberos takes a ticket or a keytab of the environment; without a
        principal, the one that it finds first.
    :param principal: the brokers' service, ``service@host``.
    """

    def __init__(self, sasl: SaslConfig, *, loop: asyncio.AbstractEventLoop, principal: str) -> None:
        self._keytab, self._client = sasl.kerberos_keytab, sasl.kerberos_principal
        super().__init__(loop=loop, principal=principal)

    def authenticator_gssapi(self) -> Generator[tuple[bytes, bool], bytes | None, None]:
        """Exchange tokens with the broker; runs in a thread, since Kerberos' servers are asked.

        Raises ``ConnectionFailedError`` with what Kerberos says, and whose login it was.
        """
        import gssapi

        try:
            yield from self._exchange(gssapi)
        except gssapi.exceptions.GSSError as error:
            who = self._client or "the first principal there is"
            by = f"the keytab {self._keytab}" if self._keytab else "the ticket or keytab of the environment"
            problem = f"the connection could not be opened: Kerberos refuses {who} by {by}: {error}"
            raise ConnectionFailedError(self._principal, problem) from None

    def _exchange(self, gssapi: Any) -> Generator[tuple[bytes, bool], bytes | None, None]:
        service = gssapi.Name(self._principal, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=service.canonicalize(gssapi.MechType.kerberos), creds=self._credentials(gssapi), usage="initiate"
        )
        answer = None
        while not context.complete:
            answer = yield context.step(answer) or b"", True
        offered = context.unwrap(answer).message
        yield context.wrap(_NO_LAYER + offered[1:] + self._principal.encode(), False).message, False

    def _credentials(self, gssapi: Any) -> Any:
        """Return what the client logs in with; ``None`` for whatever Kerberos finds in the environment."""
        if self._keytab is None and self._client is None:
            return None
        name = self._client and gssapi.Name(self._client, name_type=gssapi.NameType.kerberos_principal)
        if self._keytab is None:
            return gssapi.Credentials(name=name, usage="initiate")
        # Tickets of this keytab and principal only, in memory: a login asks for one when the last one has expired.
        own = sha256(f"{self._keytab}\0{self._client}".encode()).hexdigest()[:16]
        store = {"client_keytab": f"FILE:{self._keytab}", "ccache": f"MEMORY:kafka-groups-{own}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store)
