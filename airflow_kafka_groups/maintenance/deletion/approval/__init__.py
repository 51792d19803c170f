"""When a person has to approve a plan, and how the answer is sealed."""
