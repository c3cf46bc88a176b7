"""Asks cluster autoscalers for nodes, for pods that no present node can serve."""
