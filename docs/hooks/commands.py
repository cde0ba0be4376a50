"""The options of every command, taken from the command line itself.

A page contains `<!-- options of nora rank -->`, which other readers do not show; here it becomes a table.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from sphinx.errors import ExtensionError
from typer.main import get_command

from nora.cli import app as command_line

MARK = re.compile(r"<!-- options of nora ([\w-]+) -->")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_options)
    return {"parallel_read_safe": True}


def add_options(app: Any, name: str, content: list[str]) -> None:
    """Tables in place of their marks."""
    content[0] = MARK.sub(lambda mark: table(mark[1]), content[0])


def table(name: str) -> str:
    """Arguments and options of a command, folded away under one line."""
    commands: dict[str, Any] = get_command(command_line).commands  # type: ignore[attr-defined]
    if name not in commands:
        raise ExtensionError(f"a page wants the options of 'nora {name}', which is not a command")
    summary = f"<details><summary>All options of <code>nora {name}</code></summary>"
    rows = [_row(parameter) for parameter in commands[name].params]
    lines = ["| | what it does | default |", "|---|---|---|", *rows]
    return "\n".join([summary, "", *lines, "", "</details>"])


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        name = parameter.opts[0] + ("" if parameter.is_flag else f" {parameter.metavar or '…'}")
    text = escape(parameter.help or "").replace("|", "&#124;")
    name = name.replace("|", r"\|")  # or the table would end the cell there
    return f"| `{name}` | {text} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    value = parameter.default
    return "" if value is None or value is False else f"`{value}`"
