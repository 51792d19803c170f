"""Hand-written codecs of messages in the compact encoding (KIP-482), for two reasons.

kio builds classes for a message when it first meets it, which takes 10 ms: too long for the messages that every call
begins with. And it makes an object of every row: too slow for responses with thousands of rows. Property tests compare
every decoder with kio's, byte by byte. Here is what they have in common, and the largest; the others are ``decode`` in
the module of their API.
"""
