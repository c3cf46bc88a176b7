"""Frozen snapshots of the fleet. Every decision reads one."""
