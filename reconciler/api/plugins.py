"""The plugins of this process. Each room asks them for its part; `plugins/plugin.py` describes all parts."""

from typing import Any

PLUGINS: list[Any] = []
"""Each a `Plugin`, whose parts belong to higher rooms than this one"""
