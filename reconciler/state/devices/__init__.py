"""What we know: the one mutable picture of devices and who holds them, and frozen pictures for deciding."""
