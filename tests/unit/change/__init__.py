"""Tests of maintenance: scripts played against a small cluster in memory."""
