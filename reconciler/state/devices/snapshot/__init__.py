"""Frozen pictures of the fleet, from which every decision is made."""
