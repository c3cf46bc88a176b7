"""Slices joined to pools and the fleet, with counter sets, and what each node can reach."""
