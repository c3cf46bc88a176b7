"""Volumes: the objects that describe them, which pods use them, and where they can be used."""
