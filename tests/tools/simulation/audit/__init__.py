"""What must be true on the server, worked out from its JSON with plain numbers.

Shares no code with what it audits.
"""
