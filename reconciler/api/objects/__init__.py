"""Typed, frozen API objects and the values they hold. No I/O, no NumPy, no cluster client."""
