"""Which nodes and which devices to prefer among those that fit, so that more fits later.

A policy only orders candidates. Feasibility, constraints and the search are those of `allocation/dra`.
"""
