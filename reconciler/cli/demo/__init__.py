"""The demonstration: allocate sample claims on a small fleet, live."""
