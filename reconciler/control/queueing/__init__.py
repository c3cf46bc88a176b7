"""What is reconciled next and what waits: units, pending claims, wake-ups, pauses, room."""
