"""What the API refuses, and what it fills in, kind by kind (docs/rules/slices.md, claims.md, status.md)."""
