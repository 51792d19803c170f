"""The real campaign notices a guard that is missing. Part of ``make campaign``: its runs depend on time."""

import pytest

from tests.campaign.real.campaign import run_real, site
from tests.campaign.real.story import VERSIONS

SEED = 9


@pytest.mark.timeout(900)
@pytest.mark.kafka(" and ".join(VERSIONS))
def test_a_guard_that_is_missing_is_noticed() -> None:
    with site() as place:
        missing = run_real([SEED], place, told=print, without="no intent is written")
    assert missing.broken.keys() >= {"journal_lies"}
