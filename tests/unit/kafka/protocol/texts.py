"""The strings that messages are drawn with."""

from hypothesis import strategies as st

TEXTS = st.sampled_from(["", "g", "ünï", "x" * 200, "a\0\0\0b"])  # the last one looks like the end of a row
