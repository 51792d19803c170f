"""Hand-written codecs of the messages that kio is too slow for, in the compact encoding (KIP-482)."""
