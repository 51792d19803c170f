"""One connection to one broker. The only package that imports a client library."""
