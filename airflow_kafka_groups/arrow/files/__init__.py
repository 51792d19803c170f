"""The jobs' files: a storage, of which a local disk needs no JVM."""
