"""The private files of a job, its properties among them: on spark-submit's command line, every user could read these.

spark-submit reads them by ``--properties-file``, and ``spark-defaults.conf`` besides (``--load-spark-defaults``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.storage.url_secrets import has_secret

READ_BY_AIRFLOW = frozenset(
    {
        "spark.kubernetes.namespace",
        "spark.kubernetes.submission.waitAppCompletion",
        "spark.yarn.submit.waitAppCompletion",
    }
)
"""Properties by which Airflow's hook decides, so it has to see them. None is secret."""

_SECRET = re.compile(
    r"secret|passw|passphrase|token|jaas|credential|(?:access|account|api|encryption|private|fixed).?key|azure\.sas\."
    r"|[_-](?:pwd\b|(?:pwd|pass)(?:[_-]?\d+)?$)|(?-i:\.(?:pwd\b|pass$))|(?<!security\.)authorization|connection_string"
    r"|(?-i:[A-Z](?<!OLD)(?<!BY)(?<!COM)(?:PWD|PASS)(?:_?\d+)?$)",  # DBPASS, and neither OLDPWD nor BYPASS
    re.I,
)
_NOT_ITSELF = re.compile(r"(?:provider|class|type|path|file|location|ur[il]|enabled|name|algorithm)s?$", re.I)
"""Names of what belongs to a secret, and is none."""
_PRIVATE_KEY = "PRIVATE KEY-----"
"""What every private key in PEM has, also within the JSON of a service account."""
_SWITCHES = frozenset({"true", "false"})
"""Values that are never secret: masked, they would be so wherever the log has them."""

_OF_JAVA = re.compile(r"-D([^=\s]+)=")
"""The name of a property among Java's options."""

PRIVATE_PREFIX = "kafka-groups-private-"
_GUARD = 'trap "" HUP INT TERM; while read -r _; do :; done; rm -rf -- "$1"'


@contextmanager
def private_folder() -> Iterator[Path]:
    """Provide a new folder that only this user can enter (mode 0700), and remove it afterwards, also after ``kill -9``.

    A guard, a shell in a session of its own, waits for the end of a pipe from this process, and removes the folder
    then.
    """
    folder = Path(tempfile.mkdtemp(prefix=PRIVATE_PREFIX))
    guard = subprocess.Popen(  # noqa: S603 - the folder is an argument, not part of the script
        ["/bin/sh", "-c", _GUARD, "kafka-groups-guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        guard.kill()
        guard.communicate()


def render_properties(properties: Mapping[str, str]) -> str:
    """Return the content of a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(properties.items()))


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def write_secret_file(text: str, path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600), from its first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def is_secret(name: str, value: str) -> bool:
    """Return whether a property or variable is secret: by its name, or by a key, a URL or an option of Java in it."""
    if value.lower() in _SWITCHES:
        return False
    names = (name, *_OF_JAVA.findall(value))
    named = any(_SECRET.search(each) and not _NOT_ITSELF.search(each) for each in names)
    return named or _PRIVATE_KEY in value or ("://" in value and has_secret(value))


def hide_conf(
    conf: Mapping[str, Any] | None,
    properties_file: str | None,
    folder: Path,
    *,
    env_vars: Mapping[str, Any] | None = None,
    driver_env: str | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Write properties to a file in a private folder; return those that Airflow has to see, and the file.

    :param properties_file: the task's own ``--properties-file``, whose content comes first.
    :param env_vars: what the task adds to its environment.
    :param driver_env: what precedes the names of these variables as properties, where the driver gets them so.

    Raises ``ConfigurationError`` if the task's file cannot be read.
    """
    given = {name: str(value) for name, value in (conf or {}).items()}
    if driver_env is not None:
        given = {f"{driver_env}{name}": str(value) for name, value in (env_vars or {}).items()} | given
    seen = {name: value for name, value in given.items() if name in READ_BY_AIRFLOW}
    if seen == given:
        return given, properties_file
    try:
        before = "" if properties_file is None else Path(properties_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError("properties_file", properties_file, f"cannot be read: {type(exc).__name__}") from None
    hidden = {name: value for name, value in given.items() if name not in seen}
    # An empty line ends a last line that goes on with a backslash.
    path = write_secret_file(f"{before}\n\n{render_properties(hidden)}", folder / "spark.properties")
    return seen, str(path)
