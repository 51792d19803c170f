"""The configuration of a client, its fingerprint, and the tokens of a client's id and secret."""

import hashlib
import importlib
import json
import ssl
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig, ConnectionPrint
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.transport.security import Pem, TokenEndpoint, client_credentials
from tests.lab.security.certificates import Authority, Pair

SECRET = "s3cr3t-value"


def parse(**overrides: Any) -> ClientConfig:
    settings = {"bootstrap.servers": "b1:9092"} | {key.replace("_", "."): value for key, value in overrides.items()}
    return ClientConfig.from_librdkafka(settings)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("b1:9092", (("b1", 9092),)),
        ("b1", (("b1", 9092),)),
        ("b1:1, b2:2 ,b1:1", (("b1", 1), ("b2", 2))),
        ("SASL_SSL://b1:9094,", (("b1", 9094),)),
        ("[::1]:9092,[fe80::1]", (("::1", 9092), ("fe80::1", 9092))),
    ],
)
def test_bootstrap_servers(text: str, servers: tuple[tuple[str, int], ...]) -> None:
    assert parse(bootstrap_servers=text).bootstrap_servers == servers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is missing; give at least one broker"),
        *[(text, "") for text in ("", " , ", "b1:port", "b1:0", "b1:70000", "b1:" + "9" * 5_000, ":9092", "b1:\uff19")],
        *[(text, "must be a string") for text in (9092, ["b1"])],
        *[(text, "write host:port") for text in ("kafka://b1:9092", "b1:9092/x", "[::1", "::1")],
        *[(text, "a comma between servers: b1:9092,b2") for text in ("b1:9092;b2:9092", "b1\uff0cb2", "b0,b1\nb2")],
    ],
)
def test_bootstrap_servers_that_cannot_be_read_are_named(text: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"bootstrap\.servers.*{said}"):
        parse(bootstrap_servers=text)


@pytest.mark.safety
@pytest.mark.parametrize("text", [f"u:{SECRET}@b:1", f"b1:1,SASL_SSL://u:{SECRET}@b2:1", f"{SECRET}@b"])
def test_a_password_among_the_bootstrap_servers_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError, match="without a user") as refused:
        parse(bootstrap_servers=text)
    assert SECRET not in str(refused.value)


def test_settings_of_consumers_and_producers_are_let_through() -> None:
    config = parse(group_id="g", enable_auto_commit=False, client_id="me", socket_timeout_ms="1500")
    assert (config.client_id, config.request_timeout) == ("me", 1.5)


@pytest.mark.parametrize("spelling", ["sasl_mechanism", "sasl_mechanisms"])
def test_sasl(spelling: str) -> None:
    security = parse(
        security_protocol="sasl_ssl", sasl_username="u", sasl_password=SECRET, **{spelling: "scram-sha-512"}
    ).security
    assert security.protocol == "SASL_SSL"
    assert (security.mechanism, security.username, security.password) == ("SCRAM-SHA-512", "u", SECRET)
    assert security.uses_tls
    assert security.uses_sasl


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"security_protocol": "TLS"}, r"security\.protocol \(got 'TLS'\)"),
        ({"security_protocol": "SASL_SSL"}, r"sasl\.mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "NTLM"}, r"sasl\.mechanism \(got 'NTLM'\)"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, r"sasl\.username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"}, r"sasl\.password"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "oauth_cb"),
        ({"request_timeout_ms": "soon"}, r"request\.timeout\.ms \(got 'soon'\)"),
        ({"request_timeout_ms": 0}, r"request\.timeout\.ms"),
        ({"enable_ssl_certificate_verification": "maybe"}, r"enable\.ssl\.certificate\.verification"),
        ({"ssl_endpoint_identification_algorithm": "htps"}, r"ssl\.endpoint\.identification\.algorithm \(got 'htps'\)"),
        ({"ssl_endpoint_identification_algorithm": "https "}, r"identification\.algorithm .*give https or none"),
        ({"ssl_endpoint_identification_algorithm": True}, r"identification\.algorithm \(got True\)"),
    ],
)
def test_bad_settings_are_named_with_their_value(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        parse(**settings)


def test_no_secret_is_in_the_error_of_a_certificate_that_cannot_be_read() -> None:
    pems = {"ssl_key_pem": SECRET, "ssl_key_password": SECRET, "ssl_certificate_pem": SECRET, "ssl_ca_pem": SECRET}
    with pytest.raises(ConfigurationError) as refused:
        parse(security_protocol="SSL", **pems).security.ssl_context()
    assert SECRET not in str(refused.value)


def test_oauth_extensions_are_read_as_librdkafka_reads_them() -> None:
    given = {
        "bootstrap.servers": "b1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda text: ("t", 1.0),
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, poolId=p",
    }
    config = ClientConfig.from_librdkafka(given)
    assert config.security.oauth is not None
    assert config.security.oauth.extensions == {"logicalCluster": "lkc-1", "poolId": "p"}
    for wrong in ("a", "=b", "a b=c", "a=\x01auth=Bearer x"):
        with pytest.raises(ConfigurationError, match="extensions"):
            ClientConfig.from_librdkafka({**given, "sasl.oauthbearer.extensions": wrong})


def test_certificates_are_checked_unless_it_is_switched_off() -> None:
    checked = parse(security_protocol="SSL").security.ssl_context()
    unchecked = parse(security_protocol="SSL", enable_ssl_certificate_verification="false").security.ssl_context()
    no_name = parse(security_protocol="SSL", ssl_endpoint_identification_algorithm="none").security.ssl_context()
    assert checked is not None
    assert checked.check_hostname
    assert unchecked is not None
    assert unchecked.verify_mode.name == "CERT_NONE"
    assert no_name is not None
    assert (no_name.check_hostname, no_name.verify_mode.name) == (False, "CERT_REQUIRED")


def test_a_ca_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location.*nowhere\.pem"):
        parse(security_protocol="SSL", ssl_ca_location="nowhere.pem").security.ssl_context()


@pytest.mark.safety
def test_a_key_is_no_path_to_be_shown_nor_is_one_without_its_first_and_last_line() -> None:
    """As others export keys: the first part of this one, which a shortened message would still have, is all of it."""
    key = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg" + "3Xq7" * 34
    given = {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.key.location": key}
    for text in (key, f"{key[:64]}\n{key[64:]}"):
        with pytest.raises(ConfigurationError, match="-----BEGIN") as refused:
            ClientConfig.from_librdkafka({**given, "ssl.key.location": text})
        assert key[:20] not in str(refused.value)
    for name in ("ssl.key", "ssl.certificate"):
        for text in (
            f"-----BEGIN PRIVATE KEY-----{end}{key}{end}-----END PRIVATE KEY-----" for end in ("\n", r"\n", " ")
        ):
            with pytest.raises(
                ConfigurationError, match=rf"{name}\.location: is a PEM text: .* {name}\.pem"
            ) as refused:
                ClientConfig.from_librdkafka({**given, f"{name}.location": text})
            assert key[:20] not in str(refused.value)
    long = "/etc/kafka/clusters/production/europe/private/client/key"
    assert ClientConfig.from_librdkafka({**given, "ssl.key.location": long}).security.key.location == long


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("bootstrap_servers", value) for value in ("b1:9092", ["b1:9092"], ("b1", 9092), (("b1", "9092"),), 5)],
        *[("api_timeout", value) for value in (0, "5", None, float("nan"))],
        *[("batch_size", value) for value in (0, 1.5, "5", float("inf"))],
        ("batches_in_flight", None),
        *[("singles_in_flight", value) for value in (-1, 2.5)],
    ],
)
def test_what_a_program_passes_is_checked_and_named(field: str, value: object) -> None:
    fields: dict[str, Any] = {"bootstrap_servers": (("b1", 9092),), field: value}
    with pytest.raises(ConfigurationError, match=f"^{field}"):
        ClientConfig(**fields)


SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "cleaner",
    "sasl.password": "s3cret-pass",
}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "cleaner",
    "sasl.oauthbearer.client.secret": "s3cret-pass",
}


def print_of(servers: str = "b1:9092,b2:9092", **given: Any) -> ConnectionPrint:
    settings = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in given.items()}}
    return ConnectionPrint.of(ClientConfig.parse(settings))


@pytest.mark.parametrize("same", ["b2:9092,b1:9092", "B1:9092,b2.:9092", "b1,b2,b1:9092", "PLAINTEXT://b1:9092, b2"])
def test_servers_written_otherwise_are_the_same(same: str) -> None:
    assert print_of(same) == print_of()


@pytest.mark.parametrize("other", ["b1:9092", "b1:9092,b2:9093", "b1:9092,b3:9092"])
def test_other_servers_are_another_connection_of_the_same_user(other: str) -> None:
    assert print_of(other).servers != print_of().servers
    assert print_of(other).identity == print_of().identity


@pytest.mark.parametrize(
    ("settings", "change", "differs"),
    [
        pytest.param(SCRAM, {"sasl.username": "another"}, True, id="another user"),
        pytest.param(SCRAM, {"sasl.password": "an0ther-pass"}, False, id="the password was changed"),
        pytest.param(SCRAM, {"sasl.mechanism": "SCRAM-SHA-512"}, False, id="the same user by another mechanism"),
        pytest.param(TOKENS, {"sasl.oauthbearer.client.id": "another"}, True, id="another client"),
        pytest.param(TOKENS, {"sasl.oauthbearer.client.secret": "an0ther"}, False, id="the secret was changed"),
        pytest.param(TOKENS, {"sasl.oauthbearer.extensions": "logicalCluster=lkc-2"}, True, id="another tenant"),
    ],
)
def test_the_identity_is_who_logs_in_and_no_secret(
    settings: dict[str, str], change: dict[str, str], differs: bool
) -> None:
    before, after = print_of(**settings), print_of(**{**settings, **change})
    assert (before.identity != after.identity) is differs
    assert before.servers == after.servers


def test_a_renewed_certificate_of_the_same_subject_is_the_same_identity() -> None:
    authority = Authority()
    first, renewed, other = (authority.issue(name) for name in ("me", "me", "you"))

    def identity(pair: Pair) -> str:
        given = {"security.protocol": "SSL", "ssl.certificate.pem": pair.certificate, "ssl.key.pem": pair.key}
        return print_of(**given).identity

    assert first != renewed
    assert identity(first) == identity(renewed) != identity(other)
    assert identity(first) != hashlib.sha256(b"certificate:").hexdigest(), "the subject was read"


AUTHORITY = Authority()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pair, folder = AUTHORITY.issue("login"), tmp_path_factory.mktemp("endpoint")
    for name, text in (("certificate", pair.certificate), ("key", pair.key)):
        (folder / name).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate", folder / "key")

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": "t1", "expires_in": 3600}).encode())

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()


def endpoint(url: str, **authority: str) -> TokenEndpoint:
    return TokenEndpoint(url=url, client_id="me", client_secret="s", ca=Pem(name="https.ca", **authority))


@pytest.mark.parametrize("form", ["text", "location"])
def test_an_authority_of_ones_own_is_trusted(url: str, tmp_path: Path, form: str) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(AUTHORITY.certificate)
    authority = {form: AUTHORITY.certificate if form == "text" else str(file)}
    token, _ = client_credentials(endpoint(url, **authority))("")
    assert token == "t1"


def test_any_other_authority_is_not(url: str) -> None:
    for authority in ({}, {"text": Authority().certificate}):
        with pytest.raises(ConnectionFailedError, match="gave no token"):
            client_credentials(endpoint(url, **authority))("")


@pytest.mark.safety
def test_a_key_in_the_address_of_the_endpoint_is_shown_nowhere() -> None:
    """Some gateways take one in the query; what requests the token shows the address without it."""
    assert "hunter2" not in repr(endpoint("https://host/token?key=hunter2"))
    assert endpoint("http://[::1]:8080/@tenant/token").url == "http://[::1]:8080/@tenant/token"


@pytest.mark.safety
@pytest.mark.parametrize(
    "url",
    [
        *(
            "htps://host/token?key=hunter2",
            "https://me:hunter2@h\N{ACCOUNT OF}st/token",
            "https://me:hunter2[@host/token",
        ),
        *("https://me:hunter2/+x@host/token", "https://me:hunter2#x@host/token", "https://me:hunter2?x@host/token"),
        *("https://me:hunter2@host/t", "https:/me:hunter2@host/t", "me:hunter2@host/t"),
    ],
)
def test_what_is_no_address_of_an_endpoint_or_has_a_user_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"token\.endpoint\.url: write a URL .* without a user") as caught:
        endpoint(url)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


PAIR = AUTHORITY.issue("ann", key_password=SECRET)
TLS = {
    "ssl.ca.pem": AUTHORITY.certificate,
    "ssl.certificate.pem": PAIR.certificate,
    "ssl.key.pem": PAIR.key,
    "ssl.key.password": SECRET,
}
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": SECRET}
KERBEROS = {"sasl.kerberos.service.name": "kfk", "sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@R"}
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc1,poolId=p",
    "https.ca.pem": AUTHORITY.certificate,
}


def give_token(config: str) -> tuple[str, float]:
    return "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.", time.time() + 600


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"client.id": "me", "socket.timeout.ms": "1500", "socket.connection.setup.timeout.ms": "2000"},
        {"bootstrap.servers": "[::1]:9092,b2:1"},
        {"security.protocol": "SSL", **TLS},
        {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "ssl.endpoint.identification.algorithm": "none"},
        {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
        {"security.protocol": "SASL_PLAINTEXT", **LOGIN},
        {"security.protocol": "SASL_SSL", **LOGIN, **TLS},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **KERBEROS},
        {"security.protocol": "SASL_SSL", **OIDC},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": "a.b"},
    ],
)
def test_what_is_written_parses_back_to_the_same_model(settings: dict[str, str]) -> None:
    config = ClientConfig.parse({"bootstrap.servers": "b1:9092", **settings})
    written = to_librdkafka(config)
    assert ClientConfig.parse(written) == config
    assert {name: written[name] for name in settings} == settings


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"request.timeout.ms": "900000", "socket.connection.setup.timeout.ms": "5"},
        {"security.protocol": "SSL", **TLS},
        {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": "false", **LOGIN, **TLS},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": give_token},
    ],
)
def test_confluents_client_takes_them(settings: dict[str, Any]) -> None:
    """Librdkafka checks names, bounds, certificates and keys when the client is made, and gets a token."""
    kafka: Any = importlib.import_module("confluent_kafka.admin")
    config = ClientConfig.from_librdkafka({"bootstrap.servers": "127.0.0.1:9", **settings})
    kafka.AdminClient(to_librdkafka(config), logger=importlib.import_module("logging").getLogger("quiet"))


@pytest.mark.parametrize("name", ["security.protocl", "security_protocol", "sasl.mecanism", "sasl.passwd"])
def test_a_misspelt_setting_of_the_login_is_not_left_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a property of Kafka; did you mean 's") as refused:
        ClientConfig.parse({"bootstrap.servers": "b1:9092", name: SECRET})
    assert refused.value.field == name
    assert SECRET not in str(refused.value)


@pytest.mark.safety
@pytest.mark.parametrize("value", [[SECRET], {"a": SECRET}], ids=["list", "object"])
def test_what_is_no_string_is_no_secret_and_is_not_shown(value: Any) -> None:
    """Written out it would be a wrong password, and brokers may lock the user out."""
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": value}
    wrong = {
        "sasl.password": {"bootstrap.servers": "b1:9092", **login},
        "bootstrap.servers": {"bootstrap.servers": [f"u:{SECRET}@b1:9092"]},
    }
    for name, settings in wrong.items():
        with pytest.raises(ConfigurationError, match=f"{name}: must be a string") as refused:
            ClientConfig.from_librdkafka(settings)
        assert SECRET not in str(refused.value)


JAAS = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{SECRET}";'


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.jaas.config": JAAS}, r"sasl\.jaas\.config: .*write sasl.username and sasl.password, .*OAUTHBEARER"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, r"sasl\.mechanism \(got 'AWS_MSK_IAM'\): write OAUTHBEARER"),
        ({"ssl.truststore.location": "/t.jks"}, r"ssl\.truststore\.location: .*write ssl\.ca\.location, a file"),
        ({"ssl.truststore.certificates": "PEM"}, r"write ssl\.ca\.pem"),
        ({"ssl.keystore.location": "/k.p12"}, r"ssl\.keystore\.location: .*write ssl\.certificate\.location"),
        ({"ssl.keystore.certificate.chain": "PEM"}, r"write ssl\.certificate\.pem"),
        ({"ssl.keystore.key": SECRET}, r"ssl\.keystore\.key: .*write ssl\.key\.pem"),
    ],
)
def test_what_only_javas_client_reads_is_named_with_what_to_write(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        ClientConfig.parse({"bootstrap.servers": "b1:9092", "security.protocol": "SASL_SSL", **given})
    assert SECRET not in str(refused.value)


def test_a_callback_gives_the_token_its_expiry_and_the_extensions() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    given |= {"sasl.oauthbearer.config": "scope", "sasl.oauthbearer.extensions": "a=b"}
    config = ClientConfig.from_librdkafka({**given, "oauth_cb": lambda text: (f"token for {text}", 12.5)})
    assert to_librdkafka(config)["oauth_cb"]("") == ("token for scope", 12.5, "", {"a": "b"})
    config = ClientConfig.from_librdkafka({**given, "oauth_cb": lambda text: "bare"})
    token, expires_at, *_ = to_librdkafka(config)["oauth_cb"]("")
    assert token == "bare"
    assert expires_at == pytest.approx(time.time() + 300, abs=60)


@pytest.mark.safety
def test_the_model_shows_no_secret() -> None:
    given = {"bootstrap.servers": "b1", "security.protocol": "SASL_SSL", **TLS}
    for login in (LOGIN, OIDC, {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": "a.b", "sasl.oauthbearer.config": SECRET}):
        config = ClientConfig.parse({**given, **login})
        shown = repr(config) + repr(replace(config, security=config.security.embedded()))
        assert SECRET not in shown
        assert PAIR.key.splitlines()[2] not in shown
