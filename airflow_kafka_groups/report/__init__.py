"""The HTML report of a clean-up.

In: a plan and the audit records of its runs. Out: one HTML file without external assets.
"""
