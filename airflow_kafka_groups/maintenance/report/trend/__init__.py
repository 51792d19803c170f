"""The trend of a cluster over its runs: a small file that grows by one entry with each plan, and its page."""
