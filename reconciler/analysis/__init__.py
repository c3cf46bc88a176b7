"""Questions about a snapshot: why not, how full, what if, what is wrong. Nothing is changed."""
