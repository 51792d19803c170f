"""The picture of the layers in docs/design.md is that of the imports."""

from __future__ import annotations

from tests import layers


def test_the_picture_is_that_of_the_imports() -> None:
    assert layers.PICTURE.read_text() == layers.draw(), "the imports have changed: run 'make layers'"


def test_every_package_that_is_imported_is_in_the_picture() -> None:
    drawn = layers.draw()
    assert all(f">{name}</text>" in drawn for edge in layers.imports() for name in edge)


def test_an_edge_that_follows_from_others_is_left_out() -> None:
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")}
    assert layers.reduced(edges) == {("a", "b"), ("b", "c"), ("d", "c")}


def test_a_new_import_changes_the_picture() -> None:
    assert ("plugins", "operators") not in layers.imports(), "the picture shows what is imported"
    assert layers.reduced(layers.imports() | {("cli", "storage")}) == layers.reduced(layers.imports())
    assert layers.reduced(layers.imports() | {("plugins", "operators")}) != layers.reduced(layers.imports())
