"""Makes room for pending pods, if the settings allow it: plans, holds the room, evicts, one pod at a time."""
