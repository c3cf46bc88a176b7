"""Arithmetic on arrays. No names, no objects, no input or output: NumPy only.

Axes, by one letter everywhere:

D   devices, in the order in which first fit tries them
K   counter sets that one device draws from; as many as the widest device needs
S   counter sets
C   counters of one set; as many as the largest set has, the rest zero
P   distinct draws: equal draws share one row of a table
W   words of 64 bits, as many as the largest set of names needs

Codes are int32 positions in another axis; -1 means "none". Amounts are int64 in the unit of their
column; who builds a column guarantees that sums over it cannot overflow.
"""
