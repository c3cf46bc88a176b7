"""Measures the engine on synthetic fleets: what a decision costs, and how that grows: `python -m perf`."""
