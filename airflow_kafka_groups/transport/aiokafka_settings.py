"""The security settings as arguments of aiokafka's connection."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.transport.security import OAuthConfig, SecurityConfig


def to_aiokafka(security: SecurityConfig) -> dict[str, Any]:
    """Return the arguments, except for the TLS context, which many connections share (``transport.tls``).

    Raises ``ConfigurationError`` for Kerberos without the package that it needs.
    """
    arguments: dict[str, Any] = {"security_protocol": security.protocol}
    if (sasl := security.sasl) is not None and security.uses_sasl:
        if sasl.mechanism == "GSSAPI" and find_spec("gssapi") is None:
            raise ConfigurationError("sasl.mechanism", sasl.mechanism, "Kerberos needs a package: pip install gssapi")
        arguments |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": sasl.username,
            "sasl_plain_password": sasl.password,
            "sasl_kerberos_service_name": sasl.kerberos_service,
        }
    if security.oauth is not None:
        arguments["sasl_oauth_token_provider"] = _TokenProvider(security.oauth)
    return arguments


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no type information
    def __init__(self, oauth: OAuthConfig) -> None:
        self._oauth = oauth

    async def token(self) -> str:
        token, _ = await asyncio.to_thread(self._oauth.token)
        return token

    def extensions(self) -> dict[str, str]:
        return dict(self._oauth.extensions)
