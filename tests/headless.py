"""The headless Chromium of the tests: where it is found, and how it is started."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()
# No name but this machine's is known, so nothing is fetched from elsewhere. Intercepting each
# request would do the same without the browser's cache, and take a third longer.
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


def launched():
    """Yield a browser, for a fixture; skip where there is none, fail on a machine of the CI."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = f"no Chromium on this machine (looked for {', '.join(NAMES)})"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()
