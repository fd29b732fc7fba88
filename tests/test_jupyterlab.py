"""Sliders in a real page of JupyterLab: a slider is moved by its arrow key, and the text under it follows."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from devtools import Page, open_page
from nbformat.v4 import new_code_cell, new_notebook

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 180  # a page of JupyterLab takes 5 to 20 of them
RIGHT = ("ArrowRight", 39)
CELLS = (
    "from gemmlab.figures import roofline_explorer\nroofline_explorer.reader()",
    "from gemmlab.figures import tile_sliders\nfrom gemmlab.ladder import rung\n"
    'tile_sliders.sliders(rung("shared_tiles"), {"TILE": (8, 16, 32, 64)})',
    "from gemmlab.figures import resource_explorer\nresource_explorer.explorer(3)",
)
# the name of the notebook's panel, once its kernel waits for work
OPENED = """[...window.jupyterapp?.shell.widgets('main') ?? []].find(
    each => each.sessionContext?.session?.kernel?.status === 'idle')?.id"""
TEXTS = "[...document.querySelectorAll('.widget-html-content pre')].map(each => each.innerText)"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on the path")


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Run JupyterLab in a folder, with settings of its own, and give the address at which it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    kept |= {f"JUPYTERLAB_{name}_DIR": str(folder / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    command = (
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url=None",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={folder}",
    )  # fmt: skip
    log = folder / "jupyterlab.log"
    with log.open("w") as written:
        process = subprocess.Popen(command, env=os.environ | kept, stdout=written, stderr=subprocess.STDOUT)
    try:
        wait_for_answer(f"http://127.0.0.1:{port}/api", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


def wait_for_answer(url: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"JupyterLab does not answer; its log:\n{log.read_text()}")


async def move_right(page: Page, name: str, times: int) -> None:
    """Focus the slider with a description and press the right arrow."""
    slider = f"""[...document.querySelectorAll('.widget-hslider')].find(
        each => each.querySelector('.widget-label')?.innerText === '{name}')"""
    await page.evaluate(f"{slider}.querySelector('.noUi-handle').focus()")
    for _ in range(times):
        await page.press(*RIGHT)


async def explore(profile: Path, url: str) -> tuple[str, ...]:
    """Run the notebook, move a slider of each cell, and return all texts before, then all after."""
    async with open_page(CHROMIUM, profile, f"{url}/lab/tree/explorers.ipynb?reset") as page:
        await page.wait_for(OPENED, SECONDS)
        await page.evaluate(f"jupyterapp.shell.activateById({OPENED})")
        await page.wait_for("jupyterapp.shell.currentWidget !== null", SECONDS)
        await page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        await page.wait_for(f"{TEXTS}.length === {len(CELLS)}", SECONDS)
        before = await page.evaluate(TEXTS)
        await move_right(page, "tile", times=1)
        await page.wait_for(f"{TEXTS}[0].includes('32 x 32')", SECONDS)
        await move_right(page, "TILE", times=1)
        await page.wait_for(f"{TEXTS}[1].startsWith('not run')", SECONDS)
        await move_right(page, "TM", times=1)
        await page.wait_for(f"{TEXTS}[2].includes('BK = 8, TM = 16')", SECONDS)
        return (*before, *await page.evaluate(TEXTS))


def test_a_slider_moved_by_its_arrow_key_changes_what_stands_under_it(tmp_path):
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "explorers.ipynb")
    with jupyterlab(tmp_path) as url:
        texts = asyncio.run(explore(tmp_path / "profile", url))
    reader, tile, resources, moved_reader, moved_tile, moved_resources = texts
    assert "AI = 3.969 FLOP/B" in reader and "0.5411 ms" in reader
    # in tiles of 32, Q = 4 (2 N^3 / 32 + N^2) = 260 N^2 bytes, and 2 N^3 / Q = 2048 / 260
    assert "tiles of 32 x 32" in moved_reader and "AI = 7.877 FLOP/B" in moved_reader
    assert "TILE = 32: blocks of 32 x 32 = 1024 threads" in tile and "registers a thread" in tile
    assert moved_tile.startswith(
        "not run: TILE = 64 makes a block of 4096 threads, but a GPU takes at most 1024: choose a tile"
    )
    # 64 x 64 outputs are 512 threads of 8, or 256 of 16.
    assert "BK = 8, TM = 8\n" in resources and "blocks of 512 threads on a multiprocessor" in resources
    assert "BK = 8, TM = 16\n" in moved_resources and "blocks of 256 threads on a multiprocessor" in moved_resources
