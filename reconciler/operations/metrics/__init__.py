"""Metrics: their catalogue, what counts them, and how they are served."""
