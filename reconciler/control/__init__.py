"""Where deciding and talking meet: what a claim or pod needs next, and seeing it through."""
