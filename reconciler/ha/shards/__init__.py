"""Which part of a fleet one process has for itself, and which claims belong to it. Knows no cluster."""
