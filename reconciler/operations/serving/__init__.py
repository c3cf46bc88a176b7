"""What operators see of a running reconciler: metrics, health, status, and the port they are served on."""
