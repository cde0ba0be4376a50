"""Draws `docs/architecture.svg`: the layers of the package, as the import contract orders them.

    python docs/pictures/architecture.py

What a layer is about is the first sentence of its docstring, so that picture and code cannot part.
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "architecture.svg"
WIDTH, ROW, GAP, LEFT = 860, 38, 6, 20
NAME = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TEXT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
# Where people come in, what is asked and found, how it is computed.
SHADES = {
    "cli": "#fff0cc",
    "analysis": "#fff0cc",
    "questions": "#cfe8ec",
    "methods": "#cfe8ec",
    "engine": "#cfe8ec",
    "results": "#cfe8ec",
    "model": "#cfe8ec",
    "graph": "#cfe8ec",
}


def layers() -> list[list[str]]:
    """The layers from the top; the last are several small modules."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]  # of layers
    return [layer.split(" | ") for layer in contract["layers"]]


def about(layer: str) -> str:
    """The first sentence of a layer's docstring, short enough for one line."""
    place = ROOT / "src" / "nora" / layer
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.partition("\n\n")[0].split()).removesuffix(".")
    sentence = sentence.replace("`", "")
    return sentence if len(sentence) <= 96 else sentence[:95].rpartition(" ")[0] + " …"


def svg() -> str:
    """The picture."""
    rows = layers()
    height = len(rows) * (ROW + GAP) + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The layers of NORA</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="12" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="27" font-family="{TEXT}" font-size="12" fill="#5c6570">'
        "A layer may import what is below it, never what is above.</text>",
    ]
    for number, names in enumerate(rows):
        top = 40 + number * (ROW + GAP)
        last = len(names) > 1
        title = "small tools" if last else names[0]
        text = ", ".join(names) if last else about(names[0])
        if last and len(text) > 100:
            text = text[:99].rpartition(", ")[0] + " …"
        parts += [
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH - 2 * LEFT}" height="{ROW}" rx="7" '
            f'fill="{SHADES.get(names[0], "#f1efea")}"/>',
            f'<text x="{LEFT + 14}" y="{top + 24}" font-family="{NAME}" font-size="13" '
            f'font-weight="bold" fill="#1c2127">{escape(title)}</text>',
            f'<text x="{LEFT + 128}" y="{top + 24}" font-family="{TEXT}" font-size="12.5" '
            f'fill="#1c2127">{escape(text)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
