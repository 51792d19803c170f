"""Where servers may listen."""

from __future__ import annotations

import socket

import pytest

from tests.lab.errors import LabError
from tests.lab.machine import ports


def test_ports_are_different_and_out_of_the_way_of_outgoing_connections() -> None:
    found = ports.free_ports(50)
    assert len(set(found)) == 50
    assert all(ports.FIRST <= port < ports.LAST for port in found)


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.socket() as server:
        server.bind((ports.HOST, 0))
        server.listen()
        assert not ports.is_free(server.getsockname()[1])


def test_more_ports_than_there_are_is_one_plain_sentence() -> None:
    with pytest.raises(LabError, match=r"Found only \d+ of 99999 free ports"):
        ports.free_ports(99_999)
