"""Everything that decisions were made from, written down as it came, and decided again from that."""
