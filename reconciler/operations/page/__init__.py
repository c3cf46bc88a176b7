"""The status page: the fleet as people see it, on the status port. Tells; changes nothing."""
