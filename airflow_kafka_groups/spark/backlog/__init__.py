"""The unread records of groups: ranges, archives, processing, and the commit afterwards."""
