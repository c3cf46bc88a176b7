"""The API's validation and defaults, by kind (docs/reference/rules/slices.md, claims.md, status.md)."""
