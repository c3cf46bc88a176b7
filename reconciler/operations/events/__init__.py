"""Kubernetes Events about claims and pods."""
