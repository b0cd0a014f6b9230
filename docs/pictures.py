"""The pictures of the README: `python docs/pictures.py REPORT.html FOLDER`, in a headless Chromium."""

import os
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

WIDTH = 1100
# file → the elements at its upper and its lower edge, and how high it is at most
PICTURES = {
    "report-top.png": ("h1", "#pseudo", 1150),
    "report-gallery.png": ("#gallery", "#gallery", 860),
}


def area(page: Page, first: str, last: str, most: int) -> dict[str, Any]:
    """From the top of one element to the end of another."""
    boxes = [page.locator(selector).first.bounding_box() for selector in (first, last)]
    top, end = boxes[0]["y"] - 12, boxes[1]["y"] + boxes[1]["height"] + 12
    return {"x": 0, "y": top, "width": WIDTH, "height": min(end - top, most)}


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
        for name, (first, last, most) in PICTURES.items():
            page.screenshot(path=folder / name, full_page=True, clip=area(page, first, last, most))
        browser.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
