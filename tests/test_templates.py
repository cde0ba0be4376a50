"""Templates: what is put in is text, a misspelt name is an error, and they are loaded at once."""

from __future__ import annotations

import subprocess
import sys

import jinja2
import pytest

from nora.templates import render

PLOTS = "nora.results.plots"
TABLE = {"title": "", "about": "", "columns": [], "rows": []}


@pytest.mark.parametrize("where", ["title", "about"])
def test_what_is_put_in_is_text(where: str) -> None:
    page = render(PLOTS, "table.html", **{**TABLE, where: "</table><script>{{ title }}'\""})
    assert "&lt;/table&gt;&lt;script&gt;{{ title }}&#39;&#34;" in page
    assert "<script" not in page


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="about"):
        render(PLOTS, "table.html", title="", columns=[], rows=[])


def test_the_command_line_starts_without_the_template_engine() -> None:
    code = "import sys, nora.cli, nora.templates; print('jinja2' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
