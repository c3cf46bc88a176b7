"""Talks to an API server: list, watch, write. Only this code uses the network to the cluster."""
