"""Keeps a record of held room in a ConfigMap: for commands, and for the next leader, which takes it over."""
