"""Synthetic fleets as the API would spell them. Equal arguments give equal objects."""
