"""Whole lives of a reconciler, from one seed each: virtual time, and a server to which everything happens."""
