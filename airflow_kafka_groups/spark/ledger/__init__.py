"""Tables of the session's catalogue."""
