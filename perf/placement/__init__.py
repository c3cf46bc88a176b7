"""How much of a fleet each policy fills, on public traces and synthetic loads."""
