"""Tables over every error code, accidents at every file, random histories, and what reads every source file."""
