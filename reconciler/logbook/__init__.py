"""What our log lines say: every event with its fields, and what can be told from many of them."""
