"""Explains why claims cannot be allocated: which gates stop which devices. No I/O, no clock."""
