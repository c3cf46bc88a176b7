"""The status page on the status port. It is read-only."""
