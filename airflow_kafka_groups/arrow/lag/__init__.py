"""How far groups lag: by partition, and summed up by group, topic and owner."""
