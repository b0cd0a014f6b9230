"""A browser without a window. These tests are apart from the others: they need Chromium and playwright."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from rich.console import Console

from semppl.report.run import run_report
from semppl.report.settings import ReportFlags


@pytest.fixture(scope="session")
def browser():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(found).is_file():
        pytest.fail(f"no browser at {found}: install chromium, or say where it is with CHROMIUM=FILE")
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=found, args=sandbox)
        yield started
        started.close()


def made(paths, out, **flags):
    """The page of some runs."""
    return run_report(paths, ReportFlags(out=out, **{"umap": "off", **flags}), Console(quiet=True))


@pytest.fixture
def opened(browser):
    """`with opened(file) as page`: drawn, without a complaint, a dialog or a request for anything else."""

    @contextmanager
    def opening(file, *, width=1280, **context):
        heard, asked = [], []
        around = browser.new_context(viewport={"width": width, "height": 800}, **context)
        page = around.new_page()
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: heard.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.resolve().as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        yield page
        assert heard == []
        assert [url for url in asked if not url.startswith("data:")] == [file.resolve().as_uri()]
        around.close()

    return opening
