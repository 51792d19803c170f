"""One connection to one broker. The only door to a client library's sockets."""
