"""What the API refuses, and what it fills in, kind by kind (section 2 of the DRA semantics)."""
