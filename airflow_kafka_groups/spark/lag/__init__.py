"""The lag of groups as DataFrame code: in messages and seconds, its owners and its sums."""
