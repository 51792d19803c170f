"""Certificates for an hour: an authority, a broker's and a client's, as PEM; and the broker settings they need."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tests.lab.machine.ports import HOST

_LIFE = timedelta(days=1)  # longer than any run of the tests: they are made when the tests are collected


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


class Authority:
    """Issue certificates that are trusted where ``certificate`` is."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("lab authority")
        self._certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_KEY_USAGE, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, *, key_password: str | None = None) -> Pair:
        """Issue a certificate for ``name`` at the lab's address, its key encrypted if there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _builder(_name(name), self._name, key)
            .add_extension(address, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        hidden: KeySerializationEncryption = (
            BestAvailableEncryption(key_password.encode()) if key_password else NoEncryption()
        )
        return Pair(
            certificate=certificate.public_bytes(Encoding.PEM).decode(),
            key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden).decode(),
        )

    def broker_config(self, protocol: str) -> dict[str, object]:
        """Make the lab's login listener speak ``SSL``, where clients have to show a certificate, or ``SASL_SSL``."""
        broker = self.issue("broker")
        prefix = "listener.name.login.ssl"
        return {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:{protocol}",
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.certificate.chain": broker.certificate,
            f"{prefix}.keystore.key": broker.key,
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.certificates": self.certificate,
            f"{prefix}.client.auth": "required" if protocol == "SSL" else "none",
        }


_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
    )
