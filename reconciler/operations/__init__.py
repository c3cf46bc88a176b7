"""What operators see of the running program, and what it records."""
