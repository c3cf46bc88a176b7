"""Converts older API versions and shapes to current objects."""
