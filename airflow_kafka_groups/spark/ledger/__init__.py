"""Tables of the catalogue, and runs over many clusters."""
