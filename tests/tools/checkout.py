"""Where things of the repository are, wherever a test is."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SHARED = ROOT.parent / "shared"
"""Specifications, samples and recorded answers beside the checkout; not everybody has them"""
