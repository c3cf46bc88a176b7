"""Checks of allocations made by any allocator: double allocation, exclusion, reclaimed claims."""
