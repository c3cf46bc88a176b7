"""Who holds which device, and what is drawn from the counters."""
