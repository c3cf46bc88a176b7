"""Places gangs: enough pods together, with nodes and devices, or none. No I/O, no clock."""
