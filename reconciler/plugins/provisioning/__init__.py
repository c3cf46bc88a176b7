"""Asks a cluster autoscaler for nodes, with ProvisioningRequests."""
