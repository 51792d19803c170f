"""Bytes and messages, sans-IO. The only package that imports kio."""
