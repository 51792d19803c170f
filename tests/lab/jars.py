"""Fetch the jars of one Kafka version with Maven, once: ``<lab dir>/<version>/libs``.

Maven copies into a folder beside it that is renamed when complete, and a marker holds the hash of the pom: half a
download, or one made by an older pom, is done again. Jars in use by a running broker are never written to.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.java import find_maven

REPOSITORY = Path(__file__).resolve().parents[2]
KNOWN_VERSIONS = ("4.3.1", "4.1.0", "3.9.2", "2.8.2")
FETCH_TIMEOUT_S = 900

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lab</groupId><artifactId>kafka-lab</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{exclusions}
    </dependency>"""
# The command line tools drag in Kafka Connect and two web servers, which none of the tools used here needs.
_ALONE = "\n      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def lab_dir() -> Path:
    """Return the folder of the jars: ``AKG_LAB_DIR``, or ``build/kafka`` of this repository."""
    chosen = os.environ.get("AKG_LAB_DIR")
    return Path(chosen).expanduser().resolve() if chosen else REPOSITORY / "build" / "kafka"


def parse_version(version: str) -> tuple[int, int, int]:
    """Split ``4.1.0`` into numbers; raises LabError when it is no released version's spelling."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
    if not found:
        raise LabError(f"{version!r} is not a Kafka version; write it like {', '.join(KNOWN_VERSIONS)}.")
    return int(found[1]), int(found[2]), int(found[3])


def render_pom(version: str) -> str:
    """Write the pom that asks for the broker, its command line tools, and a logger that writes to stderr."""
    wanted = [("org.apache.kafka", "kafka_2.13", version, ""), ("org.slf4j", "slf4j-simple", "1.7.36", "")]
    if parse_version(version) >= (3, 9, 0):  # older ones have their tools in the broker's own jar
        wanted.append(("org.apache.kafka", "kafka-tools", version, _ALONE))
    rendered = [
        _DEPENDENCY.format(group=group, artifact=artifact, version=number, exclusions=exclusions)
        for group, artifact, number, exclusions in wanted
    ]
    return _POM.format(dependencies="\n".join(rendered))


def fetch(version: str) -> Path:
    """Return the folder with the jars of ``version``, fetching them first when they are not all there.

    :param version: a released Kafka version, such as ``4.1.0``.

    Raises LabError when Java or Maven is missing or the download fails; a later call starts over.
    """
    pom = render_pom(version)
    home = lab_dir() / version
    libs, marker = home / "libs", home / "complete"
    wanted = hashlib.sha256(pom.encode()).hexdigest()
    if _is_complete(libs, marker, wanted):
        return libs
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / "lock"):
            if not _is_complete(libs, marker, wanted):  # another process may have been quicker
                marker.unlink(missing_ok=True)
                (home / "pom.xml").write_text(pom)
                _replace(libs, _copy_dependencies(version, home))
                marker.write_text(wanted)
    except OSError as exc:
        raise LabError(f"Cannot write the jars to {home} ({exc}). Free some space, or set AKG_LAB_DIR.") from exc
    return libs


def _is_complete(libs: Path, marker: Path, wanted: str) -> bool:
    return libs.is_dir() and marker.is_file() and marker.read_text() == wanted


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _copy_dependencies(version: str, home: Path) -> Path:
    partial = home / "libs.partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [find_maven(), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as exc:
        raise LabError(
            f"Fetching Kafka {version} took longer than {FETCH_TIMEOUT_S} s; check the network and try again."
        ) from exc
    if done.returncode != 0 or not any(partial.glob("kafka_2.13-*.jar")):
        raise LabError(
            f"Maven could not fetch Kafka {version}: {_maven_reason(done.stdout + done.stderr)} "
            "Check the version, the network and Maven's settings.xml (mirrors, proxies), then try again."
        )
    return partial


def _maven_reason(output: str) -> str:
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.splitlines()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    reason = next((line for line in errors if line), "it said nothing.").partition(" -> [Help")[0]
    return reason if reason.endswith(".") else reason + "."


def _replace(target: Path, fresh: Path) -> None:
    old = target.with_name("libs.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
