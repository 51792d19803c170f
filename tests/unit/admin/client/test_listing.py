"""Listings of products that leave groups out."""

from __future__ import annotations

import re

import pytest

from airflow_kafka_groups.cluster import products
from airflow_kafka_groups.exceptions import EmptyGroupsNotListedError, IncompleteListingError
from tests.fakes.cluster import FakeCluster
from tests.unit.admin.client.faults import GROUPS, client


async def test_a_listing_without_empty_groups_is_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), products.EVENT_HUBS),))  # whatever the server's name is
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        listing = await admin.list_groups()
        deleted = await admin.delete_consumer_groups(GROUPS)
    assert set(listing) == set(GROUPS)
    assert {type(error) for error in listing.errors.values()} == {EmptyGroupsNotListedError}
    with pytest.raises(IncompleteListingError, match=r"Azure Event Hubs lists groups with members only.*the groups$"):
        listing.require_complete()
    assert {type(error) for error in deleted.failed.values()} == {IncompleteListingError}


async def test_other_products_are_listed_as_kafka_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SERVERS", ((re.compile(""), products.CONFLUENT_CLOUD),))
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        assert (await admin.list_groups()).complete
