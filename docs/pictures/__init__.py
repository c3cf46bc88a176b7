"""The pictures of docs/concepts.md, drawn from what the program computes for the manifests of the
demonstration, and the one of docs/architecture.md.
"""
