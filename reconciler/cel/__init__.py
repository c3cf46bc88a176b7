"""Device selectors: parse, check, and evaluate over columns of attributes. No cluster, no inventory."""
