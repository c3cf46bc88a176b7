"""Why not: what stands between claims and the devices of a fleet. Computes only; no I/O, no clock."""

from reconciler.analysis.explain.explain import explain

__all__ = ["explain"]
