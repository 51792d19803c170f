"""Credentials from files: PEM in the forms that users have it, and Kerberos tickets and keytabs."""

import asyncio
import os
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.transport.aiokafka_connection import KerberosAuthenticator, require_kerberos
from airflow_kafka_groups.kafka.transport.security import SecurityConfig, pem_lines
from tests.lab.security.certificates import Authority


class GSSError(Exception):
    """What Kerberos refuses."""


class Name:
    def __init__(self, name: str, name_type: str) -> None:
        self.name, self.kind = name, name_type

    def canonicalize(self, mechanism: str) -> tuple[str, str]:
        return self.name, mechanism


class Context:
    """A context of two tokens, after which the broker offers its security layers."""

    def __init__(self, name: tuple[str, str], creds: Any, usage: str) -> None:
        self.name, self.creds, self.usage, self.tokens = name, creds, usage, [b"first", None]
        MADE.append(self)

    @property
    def complete(self) -> bool:
        return not self.tokens

    def step(self, answer: bytes | None) -> bytes | None:
        assert answer == (None if len(self.tokens) == 2 else b"from the broker")
        return self.tokens.pop(0)

    def unwrap(self, message: bytes) -> Any:
        return SimpleNamespace(message=message.removeprefix(b"wrapped "))

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped " + message)


MADE: list[Context] = []


@pytest.fixture(autouse=True)
def gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("gssapi")
    module.Name, module.SecurityContext, module.Credentials = Name, Context, lambda **given: given
    module.NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
    module.MechType = SimpleNamespace(kerberos="krb5")
    module.exceptions = SimpleNamespace(GSSError=GSSError)
    monkeypatch.setitem(sys.modules, "gssapi", module)
    MADE.clear()


async def login(sasl: SecurityConfig) -> tuple[Context, list[Any]]:
    """Log in; return the context and what was sent."""
    client = KerberosAuthenticator(sasl, loop=asyncio.get_running_loop(), principal="kafka@broker")
    answers = [None, b"from the broker", b"wrapped \x07\x00\x10\x00", b""]
    sent = [await client.step(answer) for answer in answers]
    return MADE[0], sent


async def test_the_exchange_ends_with_the_choice_of_no_layer() -> None:
    context, sent = await login(SecurityConfig(mechanism="GSSAPI"))
    assert sent == [(b"first", True), (b"", True), (b"wrapped \x01\x00\x10\x00kafka@broker", False), None]
    assert (context.name, context.usage) == (("kafka@broker", "krb5"), "initiate")


async def test_the_environment_decides_where_nothing_is_given() -> None:
    context, _ = await login(SecurityConfig(mechanism="GSSAPI"))
    assert context.creds is None


async def test_a_principal_chooses_its_ticket() -> None:
    context, _ = await login(SecurityConfig(mechanism="GSSAPI", kerberos_principal="me@R"))
    assert (context.creds["name"].name, context.creds["name"].kind) == ("me@R", "principal")
    assert "store" not in context.creds


async def test_tickets_of_a_keytab_are_in_a_cache_of_its_own() -> None:
    """A ticket of the process may be another user's: that of another connection, or of whoever runs the worker."""
    caches = set()
    for keytab, principal in (("/a", None), ("/a", "me@R"), ("/a", "you@R"), ("/b", "me@R"), ("/b", "me@R")):
        MADE.clear()
        sasl = SecurityConfig(mechanism="GSSAPI", kerberos_keytab=keytab, kerberos_principal=principal)
        creds = (await login(sasl))[0].creds
        assert creds["store"]["client_keytab"] == f"FILE:{keytab}"
        assert (creds["name"] and creds["name"].name) == principal
        assert creds["store"]["ccache"].startswith("MEMORY:")
        caches.add(creds["store"]["ccache"])
    assert len(caches) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the first principal there is by the ticket or keytab of the environment: No credentials"),
        ({"kerberos_keytab": "/k/me", "kerberos_principal": "me@R"}, "me@R by the keytab /k/me: No credentials"),
    ],
)
async def test_what_kerberos_says_is_shown_with_whose_login_it_was(
    given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise GSSError("No credentials")

    monkeypatch.setattr(Context, "step", refuse)
    with pytest.raises(ConnectionFailedError, match=f"could not be opened: Kerberos refuses {said}"):
        await login(SecurityConfig(mechanism="GSSAPI", **given))


def test_a_keytab_that_this_machine_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.kafka.transport.aiokafka_connection.find_spec", lambda name: object())
    keytab = tmp_path / "me.keytab"
    sasl = SecurityConfig(mechanism="GSSAPI", kerberos_keytab=str(keytab))
    with pytest.raises(ConfigurationError, match=r"sasl\.kerberos\.keytab .*me\.keytab.* cannot be read on"):
        require_kerberos(sasl)
    keytab.write_bytes(b"keys")
    require_kerberos(sasl)


AUTHORITY = Authority()
PAIR = AUTHORITY.issue("ann", key_password="s3cr3t")
TLS = {
    "ssl.ca.pem": AUTHORITY.certificate,
    "ssl.certificate.pem": PAIR.certificate,
    "ssl.key.pem": PAIR.key,
    "ssl.key.password": "s3cr3t",
}


def squeezed(pem: str) -> str:
    return pem.replace("\n", " ").strip()


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda pem: pem.replace("\n", "\\n"),
        lambda pem: pem.replace("\n", "\\r\\n"),
        squeezed,
        lambda pem: pem.replace("-----\n", "-----").replace("\n", ""),
        lambda pem: "".join(f"    {line}\n" for line in pem.splitlines()),
        lambda pem: f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{pem}",
    ],
)
def test_pem_that_lost_its_lines_is_understood(spoiled: Callable[[str], str]) -> None:
    given = {name: spoiled(text) if name.endswith(".pem") else text for name, text in TLS.items()}
    config = ClientConfig.parse({"bootstrap.servers": "b1", "security.protocol": "SSL", **given})
    assert config.security.ssl_context() is not None
    assert {name: to_librdkafka(config)[name] for name in TLS} == TLS


def test_an_old_key_keeps_its_header() -> None:
    header = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\nAAAA\n"
    text = f"{header}-----END RSA PRIVATE KEY-----\n"
    assert pem_lines(text.replace("\n", "\\n")) == pem_lines(text) == text


def test_a_key_without_its_certificate_is_named() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SSL", "ssl.key.pem": PAIR.key}
    with pytest.raises(ConfigurationError, match=r"ssl\.key\.pem: is a key without a certificate"):
        ClientConfig.parse(given).security.ssl_context()


@pytest.mark.parametrize("wrong", ["ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"])
def test_the_setting_that_cannot_be_read_is_named(wrong: str) -> None:
    bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    given = {"bootstrap.servers": "b1", "security.protocol": "SSL", **TLS, wrong: bad}
    with pytest.raises(ConfigurationError, match=rf"{wrong}.* cannot be read"):
        ClientConfig.parse(given).security.ssl_context()


@pytest.mark.safety
def test_a_key_that_is_text_is_written_to_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def noting(self: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
        seen.append(os.readlink(key))
        load(self, certificate, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noting)
    ClientConfig.parse({"bootstrap.servers": "b1", "security.protocol": "SSL", **TLS}).security.ssl_context()
    assert seen == ["/memfd:ssl.key (deleted)"]
