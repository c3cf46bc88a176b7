"""Which nodes a pod, or a claim without a pod, may use, and which pod or claim is allocated first.

Every front end uses this package: the live loop, shadow mode, `allocate`, `explain`, `whatif` and its
endpoint. No I/O, no clock. It does not choose devices.
"""
