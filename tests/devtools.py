"""A page of headless Chromium, driven through its DevTools protocol: navigate, evaluate JavaScript, press keys."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

START_SECONDS = 60
MESSAGE_BYTES = 1 << 28


class Page:
    """A page; every call waits for Chromium's answer."""

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection, self._number = connection, 0

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result. Raises RuntimeError for one that Chromium refuses."""
        self._number += 1
        await self._connection.write_message(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            received = await self._connection.read_message()
            if received is None:
                raise RuntimeError(f"Chromium closed the page during {method}")
            answer = json.loads(received)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise. Raises RuntimeError if it throws."""
        result = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def wait_for(self, expression: str, seconds: float) -> Any:
        """Return an expression's value once it is true. Raises TimeoutError that says what the page shows."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = await self.evaluate(expression)
            if value:
                return value
            await asyncio.sleep(0.2)
        shown = await self.evaluate("document.body ? document.body.innerText.slice(0, 2000) : ''")
        raise TimeoutError(f"not true within {seconds:g} s: {expression}\nThe page shows:\n{shown}")

    async def press(self, key: str, code: int) -> None:
        """Press and release a key, by its DOM name and its Windows key code, where the focus is."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


@asynccontextmanager
async def open_page(chromium: str, folder: Path, url: str) -> AsyncIterator[Page]:
    """Start Chromium with a profile in `folder`, open a URL in it, and stop it at the end."""
    command = (
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--remote-debugging-port=0", "--window-size=1600,3000", f"--user-data-dir={folder}", "about:blank",
    )  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = await _port(folder / "DevToolsActivePort", process)
        answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
        (target,) = (each for each in json.loads(answer.body) if each["type"] == "page")
        connection = await websocket_connect(target["webSocketDebuggerUrl"], max_message_size=MESSAGE_BYTES)
        page = Page(connection)
        await page.send("Emulation.setFocusEmulationEnabled", enabled=True)  # else no element of a page holds the focus
        await page.send("Page.navigate", url=url)
        yield page
        connection.close()
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


async def _port(file: Path, process: subprocess.Popen) -> int:
    """The port that Chromium writes to a file of its profile once it listens."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"Chromium ended with status {process.returncode}")
        if file.exists() and file.read_text().strip():
            return int(file.read_text().split()[0])
        await asyncio.sleep(0.1)
    raise TimeoutError("Chromium did not listen in time")
