"""The log lines: how they are written, what each one means, and how they are read again."""
