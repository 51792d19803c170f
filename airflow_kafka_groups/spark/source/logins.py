"""What a file of settings cannot hold and an executor makes by itself: a source of tokens, Kerberos' place of keys."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_groups.cluster.client_credentials import ENDPOINT, CachedToken, client_credentials
from airflow_kafka_groups.exceptions import ConfigurationError

_KEYTAB = "KRB5_CLIENT_KTNAME"
_sources: dict[tuple[tuple[str, str], ...], CachedToken] = {}


def with_logins(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings with what logs in: ``oauth_cb`` as a function, and Kerberos told of the keytab.

    :param settings: librdkafka's names; ``oauth_cb`` may be a path, ``package.module.function``.

    Raises ``ConfigurationError`` naming the setting that cannot be used, without a secret.
    """
    given = dict(settings)
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    if isinstance(given.get("oauth_cb"), str):
        given["oauth_cb"] = _callback(given["oauth_cb"])
    elif mechanism == "OAUTHBEARER" and "oauth_cb" not in given and given.get(ENDPOINT):
        given["oauth_cb"] = _kept(given)
    if mechanism == "GSSAPI" and (keytab := given.get("sasl.kerberos.keytab")):
        if not os.access(str(keytab), os.R_OK):
            remedy = f"cannot be read on {os.uname().nodename}: put it at this path on the driver and on each executor"
            raise ConfigurationError("sasl.kerberos.keytab", keytab, remedy)
        os.environ.setdefault(_KEYTAB, f"FILE:{keytab}")  # by which MIT Kerberos logs in when there is no ticket
    return given


def _kept(given: Mapping[str, Any]) -> CachedToken:
    """Give the same source for the same settings: Spark uses a worker for many tasks, and a token holds for an hour."""
    names = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope")
    key = tuple((name, str(given.get(name))) for name in (ENDPOINT, *names, "https.ca.location", "https.ca.pem"))
    if key not in _sources:
        _sources[key] = CachedToken(client_credentials(given))
    return _sources[key]


def _callback(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = f"cannot be imported on {os.uname().nodename}: give package.module.function ({type(error).__name__})"
        raise ConfigurationError("oauth_cb", path, remedy) from None
    if not callable(found):
        raise ConfigurationError("oauth_cb", path, "is no function")
    return found  # type: ignore[no-any-return]
