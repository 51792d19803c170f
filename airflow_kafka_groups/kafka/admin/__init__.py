"""What several modules of this folder share."""
