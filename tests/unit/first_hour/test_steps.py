"""What is read from the pages, kept between commands, and written about them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.first_hour.record import Ran, as_page, as_summary, shortened
from tests.first_hour.shell import Shell
from tests.first_hour.steps import read_steps, with_own_values
from tests.pages import DOCS, ROOT

PAGE = """# A page

## One

<!-- RUN -->
```shell
export A=1
echo $A \\
  two
```

## Two

<!-- RUN AFTER 60 s -->
```shell
wait_for it
```

<!-- RUN UNTIL success -->
```shell
list
```

<!-- RUN IN BACKGROUND -->
```shell
serve
```

<!-- RUN look -->
```shell
look at /srv/x
```
"""


def test_blocks_are_steps_with_their_headings() -> None:
    one, after, until, beside, named = read_steps(PAGE)
    assert (one.title, one.commands) == ("One", ("export A=1", "echo $A    two"))
    assert (after.title, after.wait_seconds) == ("Two", 60)
    assert until.until == "success"
    assert beside.in_background
    assert named.name == "look"
    assert with_own_values(named, {"/srv/x": "/mine"}).commands == ("look at /mine",)


def test_a_block_without_a_mark_or_with_an_unknown_one_is_refused() -> None:
    with pytest.raises(ValueError, match="without a mark"):
        read_steps(PAGE + "\n```shell\nnobody tries this\n```\n")
    with pytest.raises(ValueError, match="SOMETIMES"):
        read_steps(PAGE.replace("RUN AFTER 60 s", "RUN SOMETIMES"))


@pytest.mark.parametrize("name", ["get-started", "shell"])
def test_every_command_of_the_pages_is_tried(name: str) -> None:
    steps = read_steps((DOCS / "start" / f"{name}.md").read_text())
    assert len([command for step in steps for command in step.commands]) > 8
    text = " ".join(command for step in steps for command in step.commands)
    assert "broker1:9092,broker2:9092,broker3:9092" in text
    assert "/srv/kafka-groups" in text


def test_a_shell_keeps_what_is_exported_and_returns_code_and_output(tmp_path: Path) -> None:
    with Shell(tmp_path, {"PATH": os.environ["PATH"]}) as shell:
        assert shell.run("export A='x y'") == (0, "")
        assert shell.run('echo "$A"') == (0, "x y\n")
        assert shell.run("echo no end; false")[0] == 1
        assert shell.run("printf 'without a newline'") == (0, "without a newline")
        assert shell.run("cat") == (0, ""), "there is nothing to read"
        with pytest.raises(EOFError):
            shell.run("exit 3")


def test_what_runs_beside_has_the_variables_and_ends_with_the_shell(tmp_path: Path) -> None:
    with Shell(tmp_path, {"PATH": os.environ["PATH"]}) as shell:
        shell.run("export A=b")
        shell.start('echo "$A $$"; exec sleep 100', tmp_path / "log")
        said = wait_for_text(tmp_path / "log").split()
    assert said[0] == "b"
    assert not running(int(said[1]))


def test_what_runs_beside_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, time; from pathlib import Path; from tests.first_hour.shell import Shell\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "with Shell(folder, dict(os.environ)) as shell:\n"
        "    shell.start('sleep 100 & echo $!; wait', folder / 'log'); time.sleep(100)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    pid = int(wait_for_text(tmp_path / "log"))
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    end = time.monotonic() + 60
    while running(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not running(pid)


def test_the_record_has_every_command_and_shortens_long_outputs() -> None:
    ran = [
        Ran(title="One", command="ls", exit_code=0, seconds=1.25, printed="a\nb"),
        Ran(title="One", command="serve", exit_code=None, seconds=0.0, printed=""),
    ]
    page = as_page("get-started", 500, ran)
    assert page.startswith("# get-started\n\n500 words to read, 2 commands to type, 1 s")
    assert page.count("## One") == 1
    assert "$ ls\na\nb\n" in page
    assert "runs until the end" in page
    summary = json.loads(json.dumps(as_summary("get-started", 500, ran)))
    assert summary["seconds"] == 1.25
    assert "printed" not in summary["commands"][0]
    assert shortened("\n".join(map(str, range(100))))[30] == "… 40 lines …"


def wait_for_text(file: Path) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if file.exists() and file.read_text().endswith("\n"):
            return file.read_text()
        time.sleep(0.05)
    raise TimeoutError(str(file))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
