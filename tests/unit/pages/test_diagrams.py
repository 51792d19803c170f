"""The diagrams of the documentation: each is drawn, none is left over, and nothing is loaded from another server."""

import re

import pytest

from tests.diagrams import FOLDER, as_svg, file_of, sources
from tests.pages import ROOT


def test_every_diagram_is_drawn_and_no_other() -> None:
    assert len(sources()) >= 3
    assert {file_of(source) for source in sources()} == set(FOLDER.glob("diagram-*.svg")), "run: make diagrams"


@pytest.mark.parametrize("source", sources(), ids=lambda source: file_of(source).stem)
def test_a_drawing_has_the_words_of_its_source_and_needs_nothing_else(source: str) -> None:
    html = as_svg(source, "mermaid", "diagram", {}, None)
    shown = " ".join(re.findall(r">([^<>]+)<", html))
    labels = re.findall(r"[\[{]\"?([^\[\]{}\"]+)\"?[\]}]", source)
    assert len(labels) >= 5
    words = {word for label in labels for word in re.findall(r"\w{4,}", label.replace("<br>", " "))}
    assert {word for word in words if word not in shown} == set()
    assert not re.search(r"(href|src)=|url\((?!#|\"?#)|@import", html)


def test_a_diagram_that_is_not_drawn_stops_the_site() -> None:
    with pytest.raises(FileNotFoundError, match="run make diagrams"):
        as_svg("flowchart LR\n  A --> B\n")


def test_the_site_shows_the_drawings_and_loads_no_font() -> None:
    settings = (ROOT / ".mkdocs.yml").read_text()
    assert "format: !!python/name:tests.diagrams.as_svg" in settings
    assert "font: false" in settings
