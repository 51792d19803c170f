"""The objections to a plan when it is applied: other runs, newer snapshots, an edited policy, notices, a stop."""
