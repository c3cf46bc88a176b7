"""The tests. A package so that `python -m tests.conformance` finds it before any other of that name."""
