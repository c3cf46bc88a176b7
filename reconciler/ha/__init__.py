"""Leader election: a Lease decides who may write, and the clock of its holder for how long."""
