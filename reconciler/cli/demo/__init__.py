"""The demonstration: a small fleet and a mix of claims, allocated before one's eyes."""
