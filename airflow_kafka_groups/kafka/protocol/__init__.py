"""Requests to bytes and responses to answers, sans-IO. The only package that imports kio.

``group_apis``, ``cluster_apis`` and ``membership_apis`` have a module for each API with ``build`` and ``from_kio``;
``answers`` has the decoded types, ``responses`` the table of decoders, ``hot_codecs`` what kio is too slow for.
"""
