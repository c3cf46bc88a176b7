"""Preferences beyond the API: devices near each other, and sets of devices that are allocated together.

Both call the allocator repeatedly with plain claims, the best preference first. The allocator alone decides
a claim without preferences. No I/O, no clock, no logging.
"""
