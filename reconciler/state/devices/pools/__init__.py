"""Slices put together: pools, counter sets, the fleet, and what a node reaches of it."""
