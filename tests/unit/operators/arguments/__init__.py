"""What users and templates write into operators, and what comes of it."""
