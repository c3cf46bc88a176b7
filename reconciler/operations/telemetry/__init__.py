"""Health, metrics and status of a process, and the signals by which its parts contribute to them."""
