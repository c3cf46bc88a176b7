"""Thousands of scenarios: each is played for one row, on processes, Dask or the pods of a Job."""
