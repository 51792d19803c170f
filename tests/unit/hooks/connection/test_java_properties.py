"""Every security protocol of a connection, as Kafka's Java client takes it."""

import json
import re
import stat
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.spark.kafka.connection_files import java_properties
from airflow_kafka_groups.spark.private_files import render_properties, write_secret_file

SECRET = 'pa"ss\\wörd'


def translate(properties: dict[str, Any], **switches: Any) -> dict[str, str]:
    given = {"bootstrap.servers": "b:9092", **properties}
    return java_properties(ConnectionSettings(conn_id="c", properties=given, **switches))


def test_a_plain_connection_is_its_brokers_and_nothing_for_consumers() -> None:
    made = translate({"client.id": "me", "group.id": "g", "auto.offset.reset": "earliest"})
    assert made == {"bootstrap.servers": "b:9092", "client.id": "me", "security.protocol": "PLAINTEXT"}


def test_timeouts_go_along_within_what_java_takes() -> None:
    assert translate({"socket.timeout.ms": 5000})["request.timeout.ms"] == "5000"
    assert translate({}, limits={"api_timeout": 90})["default.api.timeout.ms"] == "90000"
    made = translate({}, limits={"request_timeout": 120.0})
    assert (made["request.timeout.ms"], made["default.api.timeout.ms"]) == ("120000", "120000"), "Java refuses less"


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram"), ("SCRAM-SHA-512", "scram.Scram")],
)
def test_passwords_are_quoted(mechanism: str, module: str) -> None:
    login = {"sasl.mechanisms": mechanism.lower(), "sasl.username": "u", "sasl.password": SECRET}
    made = translate({"security.protocol": "sasl_plaintext", **login})
    assert made["sasl.mechanism"] == mechanism
    assert made["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module}LoginModule required username="u" password="pa\\"ss\\\\wörd";'
    )


def test_kerberos_and_oidc() -> None:
    kerberos = {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@R", "sasl.kerberos.service.name": "kfk"}
    made = translate({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **kerberos})
    assert made["sasl.kerberos.service.name"] == "kfk"
    assert 'useKeyTab="true" storeKey="true" keyTab="/k" principal="me@R";' in made["sasl.jaas.config"]
    oidc = {f"sasl.oauthbearer.{name}": name for name in ("client.id", "client.secret", "scope")}
    oidc |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "https://id/token"}
    made = translate({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **oidc})
    assert 'clientId="client.id" clientSecret="client.secret" scope="scope";' in made["sasl.jaas.config"]
    with pytest.raises(ConfigurationError, match="a Python token callback is not available in Spark"):
        translate({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": "a.b"})


def key_and_certificate() -> tuple[ec.EllipticCurvePrivateKey, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return key, certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("password", [None, "s3cret"])
@pytest.mark.parametrize("kind", ["TraditionalOpenSSL", "PKCS8"])
def test_certificates_and_keys_go_in_as_pem_that_java_reads(tmp_path: Path, kind: str, password: str | None) -> None:
    key, certificate = key_and_certificate()
    encryption: Any = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    text = key.private_bytes(serialization.Encoding.PEM, getattr(serialization.PrivateFormat, kind), encryption)
    (tmp_path / "ca.pem").write_text(certificate)
    (tmp_path / "key.pem").write_bytes(text)
    given: dict[str, Any] = {"ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.certificate.pem": certificate}
    given |= {"ssl.key.location": str(tmp_path / "key.pem"), "ssl.key.password": password}
    made = translate({"security.protocol": "SSL", **given})
    assert made["ssl.truststore.certificates"] == made["ssl.keystore.certificate.chain"] == certificate
    assert made["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    read = serialization.load_pem_private_key(made["ssl.keystore.key"].encode(), None)
    assert read.private_numbers() == key.private_numbers()  # type: ignore[union-attr]
    assert (made["ssl.truststore.type"], made["ssl.endpoint.identification.algorithm"]) == ("PEM", "https")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "Java's client always verifies"),
        ({"ssl.ca.location": "/no/such/ca.pem"}, "ssl.ca.location.*cannot be read: No such file"),
        ({"ssl.certificate.pem": "x", "ssl.key.pem": "s3cret"}, "the private key cannot be read"),
    ],
)
def test_what_cannot_be_translated_is_named_and_no_secret_is_shown(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        translate({"security.protocol": "SSL", **given})
    assert "s3cret" not in str(refused.value)


def test_host_names_may_go_unchecked() -> None:
    made = translate({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"})
    assert made["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.safety
def test_what_the_connection_forbids_goes_along() -> None:
    patterns = ("connect-*", "re:a[0-9]+", "job[1]", "caf\u00e9", "a*b*c", "x\u0301?")
    made = translate({}, read_only=True, protected_groups=patterns)
    assert made["kafka_groups.read_only"] == "true"
    expressions = json.loads(made["kafka_groups.protected"])
    here = GroupFilter(protected=patterns)
    ids = ["connect-x", "connect", "a12", "a12b", "", "job[1]", "job1", "job2", "cafe\u0301", "caf\u00e9", "cafe"]
    for group_id in (*ids, "a1b2c", "a1b2", "x\u0301y", "\n", "re:a[0-9]+"):
        spellings = (group_id, unicodedata.normalize("NFC", group_id))  # as a job compares them
        protected = any(re.fullmatch(expression, each) for expression in expressions for each in spellings)
        assert protected is here.protects(group_id), group_id


@pytest.mark.safety
def test_a_driver_of_another_python_reads_what_is_protected() -> None:
    """Python 3.14 ends a glob by what earlier ones refuse."""
    made = translate({}, protected_groups=("a*[!b]", "*"))
    assert json.loads(made["kafka_groups.protected"])[:3:2] == ["(?s:a.*[^b])", "(?s:.+)"]


@pytest.mark.safety
@pytest.mark.parametrize("pattern", [r"re:\pL+", "re:[[:alpha:]]+", r"re:a\z", "re:a(?i)b", r"re:\Qa.b\E"])
def test_a_pattern_that_pythons_re_reads_otherwise_is_not_handed_to_a_job(pattern: str) -> None:
    """Jobs match by it: a pattern that keeps would keep less."""
    GroupFilter(protected=(pattern,))
    with pytest.raises(ConfigurationError, match=r"^protected_groups.*Spark jobs"):
        translate({}, protected_groups=(pattern,))


def test_the_file_is_its_owners_alone_and_never_an_existing_one(tmp_path: Path) -> None:
    path = write_secret_file(render_properties({"b": " x\\y\nz\t", "a": "1"}), tmp_path / "kafka.properties")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == render_properties({"a": "1", "b": " x\\y\nz\t"}) == "a=1\nb=\\ x\\\\y\\nz\\t\n"
    with pytest.raises(FileExistsError):
        write_secret_file(render_properties({}), path)
