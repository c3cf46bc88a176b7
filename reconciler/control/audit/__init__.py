"""Checks on what is held, whoever allocated it: double allocation, exclusion, reclaimed claims."""
