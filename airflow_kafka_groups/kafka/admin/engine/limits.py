"""How much a call sends at once, and how long it pauses after failures. The limits of one API are its handler's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLimits:
    """The limits of one call.

    :param batches_in_flight: requests of many keys under way in one scope.
    :param singles_in_flight: requests under way in a scope whose broker takes one key a request.
    :param in_flight_on_each: requests under way on each of several connections to a broker.
    :param alone: keys that fail alone before a scope in which no other key was answered gets no more halves.
    :param series: the most requests of one key each that are sent together.
    :param first_pause: seconds after the first failure of a key; each further failure doubles them.
    :param longest_pause: the most seconds.
    """

    batches_in_flight: int = 3
    singles_in_flight: int = 256
    in_flight_on_each: int = 16
    alone: int = 64
    series: int = 8
    first_pause: float = 0.05
    longest_pause: float = 1.0
