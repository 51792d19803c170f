"""Free loopback ports for servers that open them a little later.

They are taken from below the range that Linux hands out to outgoing connections, so that a client connecting
meanwhile cannot sit on one. Another server still can: whoever starts a server retries with other ports.
"""

import random
import socket

from tests.lab.errors import LabError

HOST = "127.0.0.1"
FIRST, LAST = 18000, 32000
_TRIES = 2000


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free ports; raises LabError when the machine has not that many."""
    chosen: list[int] = []
    source = random.SystemRandom()  # pytest-randomly seeds the global one: two runs would race for the same ports
    for _ in range(_TRIES):
        if len(chosen) == count:
            return chosen
        port = source.randrange(FIRST, LAST)
        if port not in chosen and is_free(port):
            chosen.append(port)
    raise LabError(f"Found only {len(chosen)} of {count} free ports on {HOST} between {FIRST} and {LAST}.")
