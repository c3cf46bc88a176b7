"""Pods on nodes as columns: where they are, their labels, ports and terms of anti-affinity."""
