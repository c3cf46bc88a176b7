"""Which devices exclude one another, and what is held of them."""
