"""How each peer is started, and how those that are not Python are built. What is missing is said, never passed over."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench.scenarios import OURS, PEERS
from tests.lab import jars
from tests.lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "peers"
JAVA_CLIENT = "4.1.0"
BUILD_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that can be started (``command``), or the reason why it cannot."""

    name: str
    version: str = ""
    command: tuple[str, ...] = ()
    missing: str | None = None


def prepare(build: Path) -> dict[str, Peer]:
    """Build what needs building and give every peer."""
    makers = {"franz_go": _franz_go, "java": _java}
    peers = {}
    for name in PEERS:
        try:
            peers[name] = makers[name](build) if name in makers else _python(name)
        except (OSError, subprocess.SubprocessError, LabError, PackageNotFoundError) as error:
            peers[name] = Peer(name, missing=f"skipped: {_say(error)}")
    return peers


def _python(name: str) -> Peer:
    distribution = {OURS: "airflow-kafka-groups", "kafka_python": "kafka-python", "confluent": "confluent-kafka"}[name]
    return Peer(name, version(distribution), (sys.executable, "-m", f"tests.bench.peers.{name}"))


def _franz_go(build: Path) -> Peer:
    source = SOURCES / "franz_go"
    go = shutil.which("go")
    if go is None:
        return Peer("franz_go", missing="skipped: Go is not installed ('go' is not on the PATH)")
    target = build / "franz_go"
    _run([go, "build", "-o", str(target), "."], cwd=source)
    found = re.search(r"franz-go/pkg/kadm v(\S+)", (source / "go.mod").read_text())
    return Peer("franz_go", found[1] if found else "", (str(target),))


def _java(build: Path) -> Peer:
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        return Peer("java", missing="skipped: a Java development kit is not installed ('javac' is not on the PATH)")
    libs = f"{jars.fetch(JAVA_CLIENT)}/*"
    target = build / "java"
    target.mkdir(parents=True, exist_ok=True)
    _run([javac, "-cp", libs, "-d", str(target), str(SOURCES / "java" / "Peer.java")], cwd=REPOSITORY)
    # The JVM's own defaults. The logger in the jars would write every connection that closes to stderr.
    quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dlog4j2.level=OFF")
    return Peer("java", JAVA_CLIENT, (java, *quiet, "-cp", f"{target}{os.pathsep}{libs}", "Peer"))


def _run(command: list[str], *, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)


def _say(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in str(error.stderr).splitlines() if line.strip()]
        return f"it could not be built ({lines[-1].strip() if lines else 'no reason given'})"
    return str(error)
