"""Arithmetic on arrays. No names, no objects, no input or output: NumPy only.

Axes, by one letter everywhere:

D   devices, in the order in which first fit tries them
K   counter sets that one device draws from; sized for the device with the most
S   counter sets
C   counters of one set; sized for the largest set, padded with zeros
P   distinct draws: equal draws share one row of a table
W   words of 64 bits; sized for the largest set of names

Codes are int32 positions in another axis; -1 means "none". Amounts are int64 in the unit of their
column; the code that builds a column guarantees that sums over it cannot overflow.
"""

__distribution__ = "dra-reconciler"
