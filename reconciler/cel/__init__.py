"""Device selectors: parse, check, and run over columns of attributes. Knows no cluster and no inventory."""
