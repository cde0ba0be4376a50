"""The documentation site: complete, whole, and nothing in it from elsewhere."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.main import get_command

import nora
from chromium import violations
from nora.cli import app

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
COMMANDS = get_command(app).commands
EXAMPLES = (
    ("own-model", "own_model"),
    ("relational", "hetero"),
    ("projects", "bots"),
    ("projects", "leaderboard"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it."""
    if find_spec("myst_nb") is None:
        pytest.skip("no Sphinx: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    strict = ["--quiet", "--fail-on-warning", "--keep-going", "-d", folder / "doctrees"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, "-c", "docs", ".", folder / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))


def pages(site: Path) -> Iterator[tuple[Path, list[tuple[str, dict[str, str]]]]]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > len(DOCS)
    for page in found:
        yield page, Elements(page).found


def test_nothing_is_loaded_from_elsewhere(site):
    for page, elements in pages(site):
        for tag, given in elements:
            loaded = [given.get("src", ""), given.get("srcset", ""), given.get("data", "")]
            loaded += [given["href"]] if tag == "link" and "href" in given else []
            loaded += re.findall(r"url\(([^)]*)\)", given.get("style", ""))
            assert not [one for one in loaded if "//" in one], f"{page.name}: {tag} {given}"
        assert not re.search(
            r"fonts\.g|\bgtag\(|google-analytics", page.read_text(encoding="utf-8")
        )
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", text), sheet


def test_everything_a_page_points_to_is_there(site):
    for page, elements in pages(site):
        for _, given in elements:
            for one in (given.get("href", ""), given.get("src", "")):
                address = urlsplit(one)
                if address.scheme or not address.path:
                    continue
                assert (page.parent / unquote(address.path)).exists(), f"{page.name}: {one}"


def test_every_place_on_a_page_that_is_pointed_to_is_there(site):
    """Offline, so addresses elsewhere are not asked: `make linkcheck` does that."""
    found = {
        page.resolve(): elements
        for page, elements in pages(site)
        if any("data-content_root" in given for _, given in elements)  # else a sample report
    }
    places = {
        page: {given.get("id") or given.get("name") for _, given in elements}
        for page, elements in found.items()
    }
    seen = 0
    for page, elements in found.items():
        for tag, given in elements:
            address = urlsplit(given.get("href", ""))
            if tag != "a" or address.scheme or address.netloc or not address.fragment:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            if target in places:  # reports make their places by a script
                seen += 1
                assert unquote(address.fragment) in places[target], f"{page.name}: {given['href']}"
    assert seen > 500


def api(site: Path) -> list[Path]:
    """The pages about Python."""
    found = sorted((site / "docs").glob("api*.html"))
    assert len(found) == 6
    return found


def test_every_public_name_is_on_one_api_page(site):
    anchors = [given.get("id", "") for page in api(site) for _, given in Elements(page).found]
    assert [anchors.count(f"nora.{name}") for name in nora.__all__] == [1] * len(nora.__all__)


def test_doctests_are_shown_as_code(site):
    text = "".join(page.read_text(encoding="utf-8") for page in api(site))
    assert text.count('<span class="gp">&gt;&gt;&gt; </span>') > 50
    assert "&gt;&gt;&gt;" not in re.sub(r"(?s)<pre\b.*?</pre>", "", text)


def test_types_are_named_in_signatures_as_the_page_explains_them(site):
    text = "".join(page.read_text(encoding="utf-8") for page in api(site))
    assert "ForwardRef" not in text
    for name in re.findall(r"(?m)^\| `(\w+)` \|", (ROOT / "docs" / "api.md").read_text("utf-8")):
        assert f'<span class="pre">{name}</span>' in text


def words(html: str) -> str:
    """What a reader sees of a page, or of a part of it."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_the_command_line_page_has_every_command_with_its_options(site):
    shown = (site / "docs" / "command-line.html").read_text(encoding="utf-8")
    parts = re.split(r'<section id="nora-([\w-]+)">', shown)[1:]
    sections = {name: words(text) for name, text in zip(*[iter(parts)] * 2, strict=True)}
    assert list(sections) == list(COMMANDS)
    for name, command in COMMANDS.items():
        for parameter in command.params:
            label = parameter.metavar if parameter.param_type_name == "argument" else None
            assert (label or parameter.opts[0]) in sections[name], f"{name} {parameter.name}"
    assert "--seed …\nThe same seed gives the same results.\n0\n" in sections["run"]


def test_examples_are_shown_whole(site):
    for page, example in EXAMPLES:
        shown = (site / "docs" / f"{page}.html").read_text(encoding="utf-8")
        whole = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8").strip()
        assert whole in words(shown)


def typed(page: Path) -> list[str]:
    """The commands a page tells to type; lines that end in a backslash go on."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"(?m)^ {4,}((?:.*&& )?nora .*)$", text)
    return [one.strip() for line in lines for one in line.partition("  #")[0].split("&&")]


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.name)
def test_commands_on_the_pages_are_ones_that_the_command_line_takes(page):
    for line in typed(page):
        _, name, *arguments = shlex.split(line)
        if name in ("COMMAND", "--install-completion", "--show-completion"):
            continue
        assert name in COMMANDS, line
        COMMANDS[name].make_context(name, arguments)  # raises when it cannot be parsed


def test_the_pages_tell_to_type_something():
    assert len(typed(ROOT / "docs" / "command-line.md")) >= len(COMMANDS)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    for page in DOCS:
        if page.name != "index.md":
            assert re.search(rf'["<]{page.name}[">]', navigation), page.name


def rows(page: str, after: str) -> dict[str, list[str]]:
    """The first table after a text: its rows by their first cell, without marks."""
    text = (ROOT / "docs" / page).resolve().read_text(encoding="utf-8").partition(after)[2]
    table = re.search(r"\n\n\|.*?\n\|[-:|]+\n(.*?)\n\n", text, re.DOTALL)
    assert table, after
    cells = [line.strip("|").split("|") for line in table[1].splitlines()]
    return {first.strip("` †"): [one.strip() for one in rest] for first, *rest in cells}


def number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def results(path: str) -> dict:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("after", "graph", "last"),
    [
        ("PubMed, 2-layer GCN", "PubMed, 2-layer GCN", "top_1%"),
        ("The ogbn-arxiv graph", "ogbn-arxiv topology, 3-layer GCN", "top_10%"),
    ],
)
def test_the_guide_tells_the_cost_that_was_measured(after, graph, last):
    measured = {
        row["name"]: row for row in results("benchmarks/results/pareto.json")["graphs"][graph]
    }
    shown = rows("which-method.md", f"\n{after}")
    assert shown.keys() <= measured.keys()
    for name, (seconds, *figures) in shown.items():
        assert number(seconds) == pytest.approx(measured[name]["seconds"], rel=0.05)
        for text, metric in zip(figures, ("pearson", "spearman", last), strict=True):
            assert number(text) == pytest.approx(measured[name][metric], abs=5.1e-4), name


def test_the_pages_tell_the_agreement_that_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    tables = runpy.run_path(str(ROOT / "docs" / "pictures" / "tables.py"))
    for name in tables["PAGES"]:
        written = (ROOT / name).read_text(encoding="utf-8")
        assert written == tables["page"](name), "python docs/pictures/tables.py"


def test_the_readme_tells_the_ratios_that_were_measured():
    measured = results("benchmarks/results/exact.json")["settings"]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def between(pattern: str, values: list[float], near: float) -> None:
        found = re.search(pattern, text)
        assert found, pattern
        for shown, value in zip(found.groups(), (min(values), max(values)), strict=True):
            assert number(shown) == pytest.approx(value, rel=near)

    def ratios(*names: str) -> dict[str, float]:
        return {k: v["ratio"] for k, v in measured.items() if k.startswith(names)}

    nodes = next(row["nodes"] for name, row in measured.items() if name.startswith("cora"))
    timed = results("results/time.json")["tables"]["Seconds to score all nodes"]
    passes = [nodes / row["brute / exact"] for row in timed if row["cell"].startswith("cora")]
    between(r"([\d.]+) to (\d+) forward passes for \*all\* nodes of Cora", passes, 0.05)
    for name in ("Cora", "CiteSeer", "PubMed"):
        mine = [row["brute / exact"] for row in timed if row["cell"].startswith(name.lower())]
        between(rf"([\d,]+) to ([\d,]+) times (?:faster )?on {name}", mine, 0.002)
    between(r"(\d+) to (\d+) times on the ogbn-arxiv", list(ratios("arxiv").values()), 0.05)


@pytest.mark.parametrize("page", ["index", "api-questions", "explorer", "command-line"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(site, browser, page, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    opened = context.new_page()
    opened.goto((site / "docs" / f"{page}.html").as_uri())
    assert violations(opened) == []
    context.close()
