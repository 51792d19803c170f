"""Logins that a settings file cannot carry and each executor makes itself: token functions and Kerberos' keytab."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from airflow_kafka_groups.cluster.client_credentials import CachedToken, client_credentials
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import ConfigurationError

_KEYTAB = "KRB5_CLIENT_KTNAME"

# Spark uses a worker for many tasks, and a token is valid for an hour: equal endpoints share one.
_endpoint_tokens = cache(lambda endpoint: CachedToken(client_credentials(endpoint)))


def executor_token_source(config: ClientConfig) -> Callable[[str], Any]:
    """Return the function that returns tokens, for ``ClientConfig.from_librdkafka``.

    Raises ``ConfigurationError`` when the settings name none, or one that cannot be imported here.
    """
    oauth = config.security.oauth
    if oauth is not None and isinstance(oauth.callback, str):
        return _import(oauth.callback)
    if oauth is not None and oauth.endpoint is not None:
        source: Callable[[str], Any] = _endpoint_tokens(oauth.endpoint)
        return source
    remedy = "OAUTHBEARER needs a token endpoint, or oauth_cb=package.module.function"
    raise ConfigurationError("oauth_cb", None, remedy)


def export_keytab(config: ClientConfig) -> None:
    """Make MIT Kerberos use the keytab when there is no ticket. Raises ``ConfigurationError`` if it cannot be read."""
    sasl = config.security.sasl
    if sasl is None or sasl.mechanism != "GSSAPI" or not sasl.kerberos_keytab:
        return
    if not os.access(sasl.kerberos_keytab, os.R_OK):
        remedy = f"cannot be read on {os.uname().nodename}: put it at this path on the driver and on each executor"
        raise ConfigurationError("sasl.kerberos.keytab", sasl.kerberos_keytab, remedy)
    os.environ.setdefault(_KEYTAB, f"FILE:{sasl.kerberos_keytab}")


def _import(path: str) -> Callable[[str], Any]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = f"cannot be imported on {os.uname().nodename}: give package.module.function ({type(error).__name__})"
        raise ConfigurationError("oauth_cb", path, remedy) from None
    if not callable(found):
        raise ConfigurationError("oauth_cb", path, "is not a function")
    return found  # type: ignore[no-any-return]
