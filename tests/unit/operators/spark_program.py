"""A program in spark-submit's place, which writes down what it was given and what it read."""

import json
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = """#!{python} -I
import json, os, stat, sys
paths = [path for word in sys.argv[1:] for path in word.split(",") if os.path.isfile(path)]
files = {{path: [stat.S_IMODE(os.stat(path).st_mode), open(path).read()] for path in paths}}
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], dict(os.environ), files]) + chr(10))
print({text!r})
sys.exit({code})
"""


class Run(NamedTuple):
    """What one run was given; of each file that it names, the mode and the content while it ran."""

    words: list[str]
    environment: dict[str, str]
    files: dict[str, Any]

    def after(self, option: str) -> str:
        """Return the value of an option."""
        return self.words[self.words.index(option) + 1]

    @property
    def properties(self) -> str:
        """The content of Spark's properties file."""
        content: str = self.files[self.after("--properties-file")][1]
        return content


class Submitted:
    """The program, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "submitted.jsonl"
        self.program = folder / "spark-submit"
        self.answer("")

    def answer(self, text: str, code: int = 0) -> None:
        """Let it print this, and end so."""
        self.program.write_text(PROGRAM.format(python=sys.executable, log=str(self._log), text=text, code=code))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    @property
    def runs(self) -> list[Run]:
        """Its runs so far."""
        return [Run(*json.loads(line)) for line in self._log.read_text().splitlines()] if self._log.exists() else []
