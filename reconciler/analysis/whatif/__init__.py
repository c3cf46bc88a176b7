"""What-if analysis: would claims fit, with fewer claims, fewer nodes or more devices.

The allocator itself decides, on a separate store. Nothing is written. No I/O, no clock, no logging.
"""
