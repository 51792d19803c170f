"""Judging groups by their history: observations, idle times, states, verdicts."""
