"""How we talk to an API server. The only code that touches the network."""
