"""What tests do in a browser."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from tests.tools.patience import PATIENCE

T = TypeVar("T")


class Browser:
    """What tests do in a browser. The calls block, so they run in a thread, beside the server's loop."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    async def do(self, act: Callable[[webdriver.Chrome], T]) -> T:
        return await asyncio.to_thread(act, self.driver)

    async def open(self, url: str) -> None:
        await self.do(lambda driver: driver.get(url))

    async def run(self, script: str, *given: object) -> Any:
        """What a script returns."""
        return await self.do(lambda driver: driver.execute_script(script, *given))

    async def until(self, script: str) -> Any:
        """Wait until a script returns something true."""
        return await self.do(
            lambda driver: WebDriverWait(driver, PATIENCE, 0.05).until(
                lambda seen: seen.execute_script(script), f"not in time: {script}"
            )
        )

    async def mark(self) -> None:
        """Marks stay on what is not swapped."""
        await self.run("document.querySelectorAll('[data-v]').forEach((part) => part.marked = true)")

    async def swapped(self) -> list[str]:
        """The tags of parts that came after the marks."""
        found: list[str] = await self.run(
            "return [...document.querySelectorAll('[data-v]')].filter((part) => !part.marked)"
            ".map((part) => part.tagName)"
        )
        return found

    async def live(self, url: str) -> None:
        """Open a page and wait until it follows."""
        await self.open(url)
        await self.until("return document.getElementById('live').textContent === 'Live'")

    async def press(self, *keys: str) -> None:
        await self.do(lambda driver: driver.switch_to.active_element.send_keys(*keys))

    async def tell(self, command: str, **given: object) -> Any:
        """A command of the browser's own protocol."""
        return await self.do(lambda driver: driver.execute_cdp_cmd(command, given))

    async def media(self, feature: str, value: str) -> None:
        await self.tell("Emulation.setEmulatedMedia", features=[{"name": feature, "value": value}])

    async def size(self, width: int, height: int) -> None:
        await self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def said(self) -> list[str]:
        """What the console holds that a browser would show in yellow or red."""
        log: list[dict[str, str]] = await self.do(lambda driver: driver.get_log("browser"))
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]
