"""axe-core, a checker of accessibility, run in a page. It is installed with npm and not shipped."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.browsing import Browser
from tests.tools.patience import PATIENCE

FOLDER = Path(__file__).parent / "axe"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
INSTALL = "npm ci --prefix tests/tools/axe --ignore-scripts"
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
  (found) => done(JSON.stringify(found.violations.map((one) =>
    [one.id, one.help, ...one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200))]))),
  (error) => done(JSON.stringify([['axe-core failed', String(error)]])));
"""


async def violations(browser: Browser) -> Any:
    """What axe-core finds: rule, its text, and the elements. Skips the test if it is not installed."""
    if not SCRIPT.exists():
        pytest.skip(f"axe-core is not installed; with npm: {INSTALL}")
    await browser.do(lambda driver: driver.set_script_timeout(PATIENCE))
    script = SCRIPT.read_text("utf-8") + RUN
    return json.loads(await browser.do(lambda driver: driver.execute_async_script(script)))
