"""An admission check for Kueue: a Workload is admitted once its pods have room, which is held for them."""
