"""Copy jars with Maven, once, wholly, or with a sentence that says why not.

Maven copies into a folder beside the wanted one that is renamed when complete, and a marker holds the hash of what was
asked for: half a download, or one made by an older pom, is done again. Jars in use are never written to.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.machine.java import find_maven

FETCH_TIMEOUT_S = 900
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Maven ends within seconds: 2.4 s of processor time, not 4.5

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
_ALONE = "\n      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Name a jar on Maven Central.

    :param alone: without the jars it depends on.
    """

    group: str
    name: str
    version: str
    alone: bool = False


def render_pom(artifacts: Iterable[Artifact]) -> str:
    rendered = [
        _DEPENDENCY.format(
            group=wanted.group, artifact=wanted.name, version=wanted.version, exclusions=_ALONE if wanted.alone else ""
        )
        for wanted in artifacts
    ]
    return _POM.format(dependencies="\n".join(rendered))


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A folder of jars that Maven fills.

    :param what: what the jars are, for messages: ``"Kafka 4.1.0"``.
    :param pom: the pom that asks for them.
    :param libs: the folder of the jars, and of nothing else.
    :param home: the folder of the pom, the marker and the lock.
    :param proof: a glob that finds a jar if the download worked.
    """

    what: str
    pom: str
    libs: Path
    home: Path
    proof: str

    def fetch(self) -> Path:
        """Return the folder, filling it first when the jars are not all there; raises LabError when that fails."""
        if self.is_complete():
            return self.libs
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            with _locked(self.home / "lock"):
                if not self.is_complete():  # another process may have been quicker
                    self._marker.unlink(missing_ok=True)
                    (self.home / "pom.xml").write_text(self.pom)
                    self._replace(self._copy_dependencies())
                    self._marker.write_text(self._wanted)
        except OSError as exc:
            raise LabError(
                f"Cannot write the jars to {self.home} ({exc}). Free some space, or set AKG_LAB_DIR."
            ) from exc
        return self.libs

    @property
    def _marker(self) -> Path:
        return self.home / "complete"

    @property
    def _wanted(self) -> str:
        return hashlib.sha256(self.pom.encode()).hexdigest()

    def is_complete(self) -> bool:
        return self.libs.is_dir() and self._marker.is_file() and self._marker.read_text() == self._wanted

    def _copy_dependencies(self) -> Path:
        partial = self.home / "libs.partial"
        shutil.rmtree(partial, ignore_errors=True)
        done = self._run([find_maven(), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partial}"])
        if done.returncode != 0 or not any(partial.glob(self.proof)):
            raise LabError(
                f"Maven could not fetch {self.what}: {_maven_reason(done.stdout + done.stderr)} "
                "Check the version, the network and Maven's settings.xml (mirrors, proxies), then try again."
            )
        return partial

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                cwd=self.home,
                env={"MAVEN_OPTS": _QUICK_JVM, **os.environ},  # a collector of the user's own would clash with this one
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
                check=False,
                errors="replace",
            )
        except subprocess.TimeoutExpired as exc:
            raise LabError(
                f"Fetching {self.what} took longer than {FETCH_TIMEOUT_S} s; check the network and try again."
            ) from exc

    def _replace(self, fresh: Path) -> None:
        old = self.home / "libs.old"
        shutil.rmtree(old, ignore_errors=True)
        if self.libs.exists():
            self.libs.rename(old)
        fresh.rename(self.libs)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _maven_reason(output: str) -> str:
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.splitlines()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    reason = next((line for line in errors if line), "it said nothing.").partition(" -> [Help")[0]
    return reason if reason.endswith(".") else reason + "."
