"""Explains why claims cannot be allocated: which gates stop which devices. No I/O, no clock."""

from reconciler.analysis.explain.explain import explain

__all__ = ["explain"]
