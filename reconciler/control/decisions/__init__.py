"""Decisions and findings, each declared once: its log line and metrics derive from the class."""
