"""What operators see of a running process: metrics, logs, Events, the page."""
