"""Certificates and keys in PEM: text or a file, as users paste and name them."""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.storage.disk import LARGEST, read_local

PEM_MARK = "-----BEGIN"
"""How every text of a key or certificate begins."""
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_WIDTH = 64
_BARE_PEM = re.compile(r"[A-Za-z0-9+=\s][A-Za-z0-9+/=\s]{63,}")
"""What stands between the first and the last line of a PEM text; a long absolute path is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key in PEM: the text itself, or the path of a file that holds it.

    :param name: librdkafka's prefix of the two settings, such as ``ssl.ca``.
    """

    name: str
    location: str | None = None
    text: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text and pem_lines(self.text))
        # Errors show paths, and what was pasted here may be a private key.
        if self.location and PEM_MARK in self.location:
            raise ConfigurationError(f"{self.name}.location", None, f"is a PEM text: write it as {self.name}.pem")
        if self.location and _BARE_PEM.fullmatch(self.location):
            raise ConfigurationError(
                f"{self.name}.location", None, f"is neither a path nor a PEM text, which begins with {PEM_MARK}"
            )

    def __bool__(self) -> bool:
        return bool(self.location or self.text)

    @property
    def setting(self) -> str:
        """The setting that was given, as errors name it."""
        return f"{self.name}.{'pem' if self.text else 'location'}"

    def read(self) -> str | None:
        """Return the text, read from the file if need be; ``None`` if neither is set.

        Raises ``ConfigurationError`` naming the file that cannot be read.
        """
        if self.text or not self.location:
            return self.text
        try:
            return read_local(Path(self.location), most=LARGEST).decode("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is not a PEM file"
            raise ConfigurationError(f"{self.name}.location", self.location, f"cannot be read: {reason}") from None

    def embedded(self) -> Pem:
        """Return the same with its text, for a reader that does not have the file."""
        return Pem(name=self.name, text=self.read())


def pem_lines(text: str) -> str:
    r"""Return PEM as OpenSSL reads it, of a string that lost its lines: it is on one, indented, or has ``\n`` in it."""

    def lines(block: re.Match[str]) -> str:
        kind, body = block.groups()
        given = [line.strip() for line in body.strip().splitlines()]
        if ":" not in body:  # the header of an encrypted key has lines of its own
            joined = "".join(body.split())
            given = [joined[at : at + _PEM_WIDTH] for at in range(0, len(joined), _PEM_WIDTH)]
        return "\n".join((f"-----BEGIN {kind}-----", *given, f"-----END {kind}-----\n"))

    # What stands between the blocks is left out: Python takes CA certificates in ASCII only.
    return "".join(map(lines, _PEM_BLOCK.finditer(text.replace("\\r", "").replace("\\n", "\n")))) or text


def has_certificate(path: str) -> bool:
    """Return whether certificates can be read from a PEM file."""
    with suppress(OSError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        return True
    return False


def file_of(pem: Pem, folder: Path) -> str | None:
    """Return the path of the PEM file, written to the folder if only its text is known."""
    if pem.location or not pem.text:
        return pem.location
    path = folder / f"{pem.name}.pem"
    path.write_text(pem.text)
    return str(path)
