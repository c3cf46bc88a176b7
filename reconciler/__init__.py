"""Device allocation for Kubernetes: the controller, the offline command and the embedded API server."""

__distribution__ = "dra-reconciler"
