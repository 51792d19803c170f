"""Keep-alive: commit the offsets of sleeping groups again before the brokers forget them.

In: group ids or patterns. Out: a ``KeepAliveReport`` with one result per group. ``broker_clock`` has what each kind of
group needs and when; ``records`` reads earlier runs from ``changes/``; ``service`` does the work.
docs/concepts/keep-alive.md has the measurements.
"""
