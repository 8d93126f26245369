"""Pictures of pages, which are artefacts of a test run."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Error, Page

from tests.inside import eventually


def keep(page: Page, file: Path) -> None:
    """Keep a picture of what the page shows now.

    While Chromium puts the next document into another process, there is nothing that it could take a picture of: it
    says so, and is asked again. A page that waits for something may move on at any time.
    """
    file.parent.mkdir(parents=True, exist_ok=True)

    def is_taken() -> bool:
        try:
            page.screenshot(path=file)
        except Error as reason:
            if "Unable to capture screenshot" not in reason.message:
                raise
            return False
        return True

    eventually(is_taken, f"Chromium takes the picture {file.name}", within_s=10)
