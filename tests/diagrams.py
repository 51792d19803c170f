"""The diagrams of the documentation as SVG, so that the site loads nothing from another server.

Pages have their diagrams as Mermaid, which GitHub draws. ``make diagrams`` draws each of them into ``docs/images``, in
a file named by its source; the site shows that file. Drawing needs npm, which fetches Mermaid, and Chromium.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.pages import DOCS

FOLDER = DOCS / "images"
MERMAID = "mermaid@11.17.2"
_SETTINGS = {
    "startOnLoad": False,
    "theme": "neutral",
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False},
    "fontFamily": "sans-serif",
}
_FENCE = re.compile(r"^```mermaid\n(?P<source>.*?)^```$", re.M | re.S)


def sources() -> list[str]:
    """Return the diagrams of all pages."""
    return [found["source"] for page in sorted(DOCS.rglob("*.md")) for found in _FENCE.finditer(page.read_text())]


def file_of(source: str) -> Path:
    """Return the file of a diagram."""
    return FOLDER / f"diagram-{hashlib.sha256(source.strip().encode()).hexdigest()[:12]}.svg"


def as_svg(source: str, *_: Any, **__: Any) -> str:
    """Return a diagram as HTML; mkdocs calls this for each. Raises FileNotFoundError for one that is not drawn yet."""
    file = file_of(source)
    if not file.exists():
        raise FileNotFoundError(f"{file.name} is missing: run make diagrams, and add the file")
    return f'<div class="diagram" style="background: #fff; padding: .5em">{file.read_text()}</div>'


def main() -> int:
    """Draw what is missing, and remove what no page has."""
    wanted = {file_of(source): source for source in sources()}
    for file in set(FOLDER.glob("diagram-*.svg")) - wanted.keys():
        file.unlink()
    missing = {file: source for file, source in wanted.items() if not file.exists()}
    if missing:
        draw(missing)
    return 0


def draw(missing: dict[Path, str]) -> None:
    """Draw diagrams with Mermaid in a browser."""
    from playwright.sync_api import sync_playwright

    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            script = packed.extractfile("package/dist/mermaid.min.js")
            assert script is not None
            code = script.read().decode()
        running = playwright.chromium.launch(executable_path=browser)
        page = running.new_page()
        page.set_content("<body></body>")
        page.add_script_tag(content=code)
        page.evaluate("settings => mermaid.initialize(settings)", _SETTINGS)
        for file, source in missing.items():
            drawn = page.evaluate(
                "async ([name, source]) => (await mermaid.render(name, source)).svg", [file.stem, source]
            )
            file.write_text(f"{drawn}\n")
            print(f"drawn: {file.name}")
        running.close()


if __name__ == "__main__":
    sys.exit(main())
