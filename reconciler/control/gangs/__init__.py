"""Gated pods that belong together: what a gang needs next, its decision, and its writes."""
