"""Answers that reference implementations gave, and whether ours agree: `python -m tests.conformance`."""
