"""The versions of Python that are promised, and the interpreters for them on this machine: standard library only.

``python -m tests.lanes.pythons 3.13`` prints the path of an interpreter, or exits with 1.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 20


def promised() -> tuple[str, ...]:
    """Return the minor versions that the package's classifiers name, such as ``3.12``."""
    return tuple(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()))


def others() -> tuple[str, ...]:
    """Return the promised versions but the one that runs everything else."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return tuple(version for version in promised() if version != own)


@cache
def find(version: str) -> Path | None:
    """Return an interpreter of a minor version that starts, or ``None``: of pyenv, of uv, or on the PATH."""
    return next((path for path in _candidates(version) if _starts(path, version)), None)


def _candidates(version: str) -> Iterator[Path]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    for folder, pattern in ((pyenv, f"{version}.*"), (uv, f"cpython-{version}.*")):
        yield from sorted(folder.glob(f"{pattern}/bin/python{version}"), reverse=True)
    if found := shutil.which(f"python{version}"):  # last: a shim of pyenv's takes longer to fail than these to start
        yield Path(found)


def _starts(path: Path, version: str) -> bool:
    """Whether a program is what its name says: a shim of pyenv may have nothing behind it."""
    said = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-c", said], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == version


if __name__ == "__main__":
    interpreter = find(sys.argv[1])
    if interpreter is None:
        sys.exit(f"There is no Python {sys.argv[1]} on this machine.")
    print(interpreter)
