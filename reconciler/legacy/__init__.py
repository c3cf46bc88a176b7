"""Older API versions and shapes, read into today's objects."""
