"""The pages of the documentation, for the tests that read them: the README, the policies beside it, and ``docs/``."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
_SHOWN = re.compile(r"<!-- START (\w+) -->\n```python\n(.*?)\n```\n<!-- END \1 -->", re.DOTALL)


def name_of(page: Path) -> str:
    """Return a page's path within the repository."""
    return page.relative_to(ROOT).as_posix()


def shown_parts() -> dict[str, str]:
    """Return the code between marks of all pages, by the mark's name. Raises ValueError if two differ."""
    parts: dict[str, str] = {}
    for page in PAGES:
        for name, code in _SHOWN.findall(page.read_text()):
            if parts.setdefault(name, code) != code:
                raise ValueError(f"{name_of(page)} shows another {name} than a page before it")
    return parts
