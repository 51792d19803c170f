"""The system's own Chromium, driven by Playwright: nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The shell is the same browser without what only a window needs: it opens a page of Airflow's with a third of the work.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = (
    "no Chromium on the PATH: install it (Debian: apt install chromium-headless-shell; elsewhere chromium or Chrome) "
    "or name one in $CHROMIUM"
)


def find_chromium() -> str | None:
    """Return the browser's program, ``None`` if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def headless_browser(program: str) -> Iterator[Browser]:
    """Run a headless browser. It must be gone before other modules' tests: its event loop is in this thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--disable-dev-shm-usage"])
        yield running
        running.close()
