"""The logic of the embedded API server, and its socket."""
