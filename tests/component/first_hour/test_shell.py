"""What a shell keeps between commands, and what it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.first_hour.shell import Shell
from tests.lab.machine.waiting import is_alive, until
from tests.pages import ROOT


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
    assert not is_alive(int(said[1]))


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
    until(lambda: not is_alive(pid))


def wait_for_text(file: Path) -> str:
    until(lambda: file.exists() and file.read_text().endswith("\n"))
    return file.read_text()
