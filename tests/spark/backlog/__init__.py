"""The jobs that read, process, commit and archive what groups have not read."""
