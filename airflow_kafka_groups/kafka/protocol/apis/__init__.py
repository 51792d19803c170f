"""Groups and their committed offsets: one module for each API."""
