"""Takes the picture of `README.md` and `docs/index.md`: the page that the README's own commands write.

    python docs/pictures/report.py

Needs Playwright and Chromium, as `explorer.py`.
"""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))


def write_report(folder: Path) -> Path:
    """The page of `nora run` on the files of `nora example`."""
    files = [f"--{name}=try/{name}.csv" for name in ("edges", "features", "labels")]
    for arguments in (["example", "try"], ["run", *files, "--out", "results"]):
        subprocess.run([sys.executable, "-m", "nora", *arguments], cwd=folder, check=True)
    return folder / "results" / "report.html"


def main() -> None:
    """Open the page, remove the most influential node, and take the picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from chromium import launch

    with TemporaryDirectory() as folder, sync_playwright() as play:
        browser = launch(play)
        page = browser.new_page(
            viewport={"width": 1280, "height": 1580},
            device_scale_factor=1.25,
            color_scheme="light",
            reduced_motion="reduce",
        )
        page.goto(write_report(Path(folder)).as_uri())
        page.locator("#panel .node").first.click()
        page.get_by_role("button", name="Restore").wait_for()
        page.evaluate("scrollTo(0, 0)")
        page.mouse.move(2, 2)
        page.wait_for_timeout(1000)
        taken = page.screenshot()
        browser.close()
    # 256 colours: half the size, and no difference to be seen.
    Image.open(BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        ROOT / "docs" / "report.png", optimize=True
    )


if __name__ == "__main__":
    main()
