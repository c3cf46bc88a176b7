"""Nodes as columns: which of them a pod may run on, and has room on. Knows nothing of devices."""
