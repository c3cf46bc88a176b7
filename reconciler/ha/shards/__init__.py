"""Shards: the part of a fleet that one process owns, and the claims that belong to it. No I/O."""
