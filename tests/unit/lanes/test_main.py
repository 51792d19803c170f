from __future__ import annotations

from tests.lanes.__main__ import short_of_space


def test_a_disk_that_is_nearly_full_is_named() -> None:
    assert short_of_space(453_000_000) == (
        "only 0.5 GB of disk space are free: all lanes together need 6 at first, "
        "for environments, jars and the installers' caches"
    )


def test_of_a_disk_with_space_nothing_is_said() -> None:
    assert short_of_space(6_000_000_000) is None
