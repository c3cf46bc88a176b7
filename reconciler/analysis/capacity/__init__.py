"""Capacity analysis: how many devices still fit, which free capacity is stranded, and the fragmentation.

Computed from columns. No I/O, no clock, no logging. docs/capacity.md defines the terms.
"""
