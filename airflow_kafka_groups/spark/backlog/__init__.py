"""What groups have not read: ranges, archives, processing, and the commit afterwards."""
