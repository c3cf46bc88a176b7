"""Who would have to leave so that something fits, and where those could go. Changes nothing, no I/O."""
