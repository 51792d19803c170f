"""The demo's stopwatch counts what other programs do for it."""

import subprocess
import sys

from tests.demo.stopwatch import Stopwatch, processor_seconds

_BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_processor_time_has_that_of_programs_that_run_and_that_have_ended() -> None:
    before = processor_seconds()
    subprocess.run([sys.executable, "-c", _BUSY], check=True)
    ended = processor_seconds()
    assert ended - before >= 0.25
    with subprocess.Popen(
        [sys.executable, "-c", _BUSY + "print(flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert processor_seconds() - ended >= 0.25
        running.communicate(b"\n")


def test_a_step_is_written_down_also_when_it_fails() -> None:
    stopwatch = Stopwatch()
    try:
        with stopwatch.step("start"):
            raise RuntimeError
    except RuntimeError:
        pass
    assert stopwatch.steps["start"]["seconds"] >= 0
    assert "start" in stopwatch.table()
