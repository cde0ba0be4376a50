"""The options of every command, taken from the command line itself.

A page says `<!-- options of nora rank -->`, which GitHub does not show; here it becomes a table.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from mkdocs.exceptions import PluginError
from typer.main import get_command

from nora.cli import app

MARK = re.compile(r"<!-- options of nora ([\w-]+) -->")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Tables in place of their marks."""
    return MARK.sub(lambda mark: table(mark[1]), markdown)


def table(name: str) -> str:
    """Arguments and options of a command, folded away under one line."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    if name not in commands:
        raise PluginError(f"a page wants the options of 'nora {name}', which is no command")
    rows = [_row(parameter) for parameter in commands[name].params]
    lines = ["| | what it says | if unsaid |", "|---|---|---|", *rows]
    return "\n".join([f'??? note "All options of `nora {name}`"', "", *(f"    {x}" for x in lines)])


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        name = parameter.opts[0] + ("" if parameter.is_flag else f" {parameter.metavar or '…'}")
    text = escape(parameter.help or "").replace("|", "&#124;")
    return f"| `{name}` | {text} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "must be given"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    unsaid = parameter.default
    return "" if unsaid is None or unsaid is False else f"`{unsaid}`"
