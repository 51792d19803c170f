"""Run ``airflow standalone``, and end it with all its children when the owner ends.

The owner holds this process's stdin; its end, by whatever cause, is the sign to stop. Airflow ends cleanly on SIGINT
only (SIGTERM leaves its children behind), and what has not ended after that is killed with the process group, of which
this process has to be the leader.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

STOP_TIMEOUT_S = 20.0


def main() -> int:
    """Run Airflow until stdin ends or Airflow does; give its exit code."""
    airflow = subprocess.Popen(
        [str(Path(sys.executable).with_name("airflow")), "standalone"],
        stdin=subprocess.DEVNULL,
        # a shell's background job ignores SIGINT, and so would everything that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    threading.Thread(target=stop_with_owner, args=(airflow,), daemon=True).start()
    code = airflow.wait()
    os.killpg(os.getpgid(0), signal.SIGKILL)  # itself too
    return code


def stop_with_owner(airflow: subprocess.Popen[bytes]) -> None:
    """Wait for the owner's end, then stop Airflow."""
    sys.stdin.buffer.read()
    airflow.send_signal(signal.SIGINT)
    try:
        airflow.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        airflow.kill()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner's to handle
    sys.exit(main())
