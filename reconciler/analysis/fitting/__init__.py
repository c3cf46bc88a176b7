"""How many pods of some sets would fit together now, on which nodes, and what is short.

For those who admit work before its pods exist. Nothing is written. No I/O, no clock, no logging.
"""
