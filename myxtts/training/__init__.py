"""Training: one loop for the three stages, checkpoints, and exact continuation."""
