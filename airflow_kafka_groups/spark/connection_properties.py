"""The properties by which a connection's restrictions reach the Spark jobs, in the file that has its other settings."""

PREFIX = "kafka_groups."
READ_ONLY = f"{PREFIX}read_only"
"""``true`` if the connection must not change anything."""
PROTECTED = f"{PREFIX}protected"
"""The groups that the connection protects: a JSON list of regular expressions."""
