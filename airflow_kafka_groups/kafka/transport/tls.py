"""One TLS context for many connections: reading the system's CA certificates takes longer than connecting."""

from __future__ import annotations

import asyncio
import ssl
import time

from airflow_kafka_groups.kafka.transport.security import SecurityConfig

_FRESH = 60.0
"""Seconds after which the files are read again: certificates are renewed in place, and clients live for weeks."""


class TlsContext:
    """The TLS context of a client's connections, built in a thread when it is first needed."""

    def __init__(self, security: SecurityConfig) -> None:
        self._security = security
        self._lock = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._made_at = 0.0

    async def get(self) -> ssl.SSLContext | None:
        """Return the context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        if not self._security.uses_tls:
            return None
        async with self._lock:
            if self._context is None or time.monotonic() - self._made_at > _FRESH:
                self._context = await asyncio.to_thread(self._security.ssl_context)
                self._made_at = time.monotonic()
            return self._context
