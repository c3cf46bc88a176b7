"""Which devices exclude one another, and which of them are held."""
