"""Manifests from files, directories or standard input, as a user writes them. No cluster, no printing."""
