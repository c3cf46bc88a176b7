"""Sizing: how many nodes of which shapes a demand needs. No I/O, no clock, no logging. docs/fleet-size.md."""
