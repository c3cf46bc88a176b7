"""What is wrong with slices, classes and claims, and what to do about it. No clock, no printing."""
