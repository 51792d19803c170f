"""Requests to bytes and responses to answers, sans-IO. The only package that imports kio.

``apis`` has a module for each API with ``build`` and ``from_kio``; ``answers`` has the decoded types, ``responses`` the
table of decoders, ``compact`` the hand-written readers and writers for what kio is too slow for.
"""
