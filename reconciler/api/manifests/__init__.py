"""Reads manifests from files, directories or standard input. No cluster, no printing."""
