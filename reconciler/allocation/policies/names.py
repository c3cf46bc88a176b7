"""The names of the policies. Imports nothing, so that help texts can name them; `named.py` makes them."""

FIRST_FIT = "first-fit"
"""The default: what Kubernetes' own allocator does"""

POLICIES = (FIRST_FIT, "best-fit", "spread", "least-loss", "fgd", "expected-fill")
"""All names, the default first"""
