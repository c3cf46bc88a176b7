"""Devices: their encoding, pools, exclusion and occupancy, and frozen snapshots of all of it."""
