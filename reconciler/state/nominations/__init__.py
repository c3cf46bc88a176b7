"""Room that is held for something until a deadline: devices, and resources of nodes."""
