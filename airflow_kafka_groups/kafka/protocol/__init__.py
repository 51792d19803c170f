"""Requests to bytes and responses to answers, sans-IO. The only package that imports kio.

``apis`` has a module for each API: ``build`` makes a request of a version, ``from_kio`` converts a response that kio
has read, ``decode`` reads one without kio. ``answers`` has the decoded types.
"""
