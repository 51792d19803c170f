"""Verbs that set, restore and delete committed offsets, and the one way in which they are carried out."""
