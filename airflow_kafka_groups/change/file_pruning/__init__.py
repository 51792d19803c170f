"""Which files of a cluster are old enough to be removed, and their removal."""
