"""Evicts pods, one at a time, within rates and budgets, for whatever needs their room."""
