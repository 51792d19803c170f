"""What may speak against a plan when it is applied: other runs, newer snapshots, an edited policy, notices, a stop."""
