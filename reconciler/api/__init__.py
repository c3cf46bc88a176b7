"""What the API says: objects, older shapes, manifests, rules of a server. No I/O but reading files."""
