"""The API's validation and defaults, by kind (docs/rules/slices.md, claims.md, status.md)."""
