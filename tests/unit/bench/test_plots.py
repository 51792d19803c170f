"""The plots are well-formed SVG with a line for each client."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.bench.plots import line_chart, plots

SVG = "{http://www.w3.org/2000/svg}"


def test_every_client_has_a_line_and_its_name() -> None:
    picture = line_chart("Fast & slow", {"ours": [(100, 0.01), (1_000, 0.1)], "java": [(100, 0.02), (1_000, 0.1)]})
    root = ElementTree.fromstring(picture)
    assert len(root.findall(f"{SVG}polyline")) == 2
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"Fast & slow", "this package", "Java Admin", "100", "1,000"} <= set(texts)


def test_labels_do_not_cover_each_other() -> None:
    picture = line_chart("x", {"ours": [(1, 1.0), (2, 1.0)], "java": [(1, 1.0), (2, 1.0)]})
    labels = [
        text
        for text in ElementTree.fromstring(picture).iter(f"{SVG}text")
        if text.text in ("this package", "Java Admin")
    ]
    first, second = sorted(float(label.attrib["y"]) for label in labels)
    assert second - first >= 12


def test_nothing_is_drawn_of_a_single_size() -> None:
    peers = {"ours": {"status": "measured", "warm": {"median": 1.0}}}
    one = {"operation": "delete", "broker": "4x", "groups": 100, "peers": peers}
    assert plots([one]) == {}
    assert set(plots([one, one | {"groups": 1_000}])) == {"bench-delete-4x"}
