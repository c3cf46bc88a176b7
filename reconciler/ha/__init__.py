"""Who may write: a Lease says it, and its holder's own clock says for how long."""
