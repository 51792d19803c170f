"""The generic engine of a batched call: what to send next, to which broker, and what became of each key."""
