"""The unread records of groups: what to read, what was processed, and whether it is committed. Without Spark."""
