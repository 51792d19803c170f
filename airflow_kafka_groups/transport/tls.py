"""One TLS context for many connections: to read the system's CA certificates takes longer than to connect."""

from __future__ import annotations

import asyncio
import ssl

from airflow_kafka_groups.transport.security import SecurityConfig

_FRESH = 60.0
"""Seconds after which the files are read again: certificates are renewed in place, and clients live for weeks."""


class TlsContext:
    """Make the TLS context of a client's connections when it is first needed, in a thread.

    :param security: which certificates there are.
    """

    def __init__(self, security: SecurityConfig) -> None:
        self._security = security
        self._making: asyncio.Task[ssl.SSLContext | None] | None = None
        self._made_at = 0.0

    async def get(self) -> ssl.SSLContext | None:
        """Give the context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        if not self._security.uses_tls:
            return None
        now = asyncio.get_running_loop().time()
        if self._making is None or now - self._made_at > _FRESH or _failed(self._making):
            self._making = asyncio.create_task(asyncio.to_thread(self._security.ssl_context), name="TLS context")
            self._made_at = now
        # Shielded: others wait for the same context when the one who began it is cancelled.
        return await asyncio.shield(self._making)


def _failed(making: asyncio.Task[ssl.SSLContext | None]) -> bool:
    return making.done() and (making.cancelled() or making.exception() is not None)
