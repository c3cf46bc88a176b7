"""The pictures of docs/concepts.md, drawn from what the program makes of the demonstration's manifests."""
