"""Rewrites requests for extended resources, such as `nvidia.com/gpu: 2`, to claims."""
