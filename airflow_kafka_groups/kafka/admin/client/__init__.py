"""The public calls of the core: what a caller asks, turned into a handler for the engine, and results in order."""
