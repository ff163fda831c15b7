"""A real browser without a window: Debian's chromium, driven by Selenium."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")

_OFF = "gpu quic background-networking component-update sync dev-shm-usage extensions default-apps"
_NO = "sandbox first-run default-browser-check"
_FLAGS = (
    "--headless=new",
    "--metrics-recording-only",
    "--hide-scrollbars",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    *(f"--disable-{what}" for what in _OFF.split()),
    *(f"--no-{what}" for what in _NO.split()),
)


def require_browser() -> None:
    """Skip, and say why, where there is no browser."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no browser: install the Debian packages chromium and chromium-driver")
    pytest.importorskip("selenium", reason="selenium drives the browser: install fairpc[dev]")


@dataclass(frozen=True, eq=False)
class Browser:
    """One tab."""

    driver: Any

    def open(self, path: Path) -> None:
        """Open a file; what was logged before is forgotten."""
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(path.resolve().as_uri())
        # On a busy machine the driver may return before the scripts of the page have run.
        end = time.monotonic() + 10
        while self.run("return document.readyState") != "complete" and time.monotonic() < end:
            time.sleep(0.05)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a piece of JavaScript."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 5.0) -> None:
        """Until a piece of JavaScript is true; a frame may have to pass."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.02)

    def messages(self) -> list[str]:
        """What the page or the browser wrote to the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = (
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        )
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def look(self, *, width: int, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Width of the window in CSS pixels, and light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", media=media, features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._command("Emulation.setDeviceMetricsOverride", **size)

    def picture(self, path: Path, *, top: int = 0, height: int | None = None) -> None:
        """A picture of the page, from so far down, as tall as said or to the end."""
        size = self._command("Page.getLayoutMetrics")["cssContentSize"]
        tall = size["height"] - top if height is None else height
        clip = {"x": 0, "y": top, "width": size["width"], "height": tall, "scale": 1}
        shot = self._command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def height(self) -> int:
        return int(self._command("Page.getLayoutMetrics")["cssContentSize"]["height"])

    def _command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with an empty profile, closed at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        try:
            driver.get("about:blank")
            yield Browser(driver)
        finally:
            driver.quit()
