"""The pictures of the README: `python docs/pictures.py REPORT.html FOLDER`, in a headless Chromium."""

import os
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

WIDTH = 1100
# file → the element at its upper edge and the one below its lower edge
PICTURES = {
    "report-top.png": ("h1", "#results .chart"),
    "report-gallery.png": ("#gallery", "#cards > li:nth-child(7)"),
}


def area(page: Page, first: str, below: str) -> dict[str, Any]:
    """From the top of one element to that of another."""
    top, end = (page.locator(selector).first.bounding_box()["y"] for selector in (first, below))
    return {"x": 0, "y": top - 8, "width": WIDTH, "height": end - top}


def draw(report: Path, folder: Path) -> None:
    """Light, as on a laptop."""
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")  # charts are drawn when they are seen
        page.wait_for_timeout(1000)
        page.evaluate("window.scrollTo(0, 0)")
        for name, edges in PICTURES.items():
            page.screenshot(path=folder / name, full_page=True, clip=area(page, *edges))
        browser.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
