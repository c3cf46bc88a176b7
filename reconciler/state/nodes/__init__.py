"""Nodes as columns: which nodes suit a pod and have room for it. Independent of devices."""
