"""From parameters to flags: what the library calls `task='link'` is `--task link` here.

Below the command line, messages name parameters, as Python users know them. Their texts are translated on
the way out, by the names of the parameters that the running command itself has; so a message needs to know
nothing of the command line, a new flag needs no entry in a list, and what is no flag of this command stays
as it is. A parameter counts only where it is written as one (`labels=`, `ignore=['bio']`) outside of quotes,
in which messages put whatever comes from the user.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from typing import Any

_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_VALUE = rf"\[{_TEXT}(?:, {_TEXT})*\]|{_TEXT}|True\b|-?\d+(?:\.\d+)?(?:e-?\d+)?\b"


def flags_of(command: Any) -> dict[str, str]:
    """The flags of a command (of click's) by the names of its parameters."""
    return {
        one.name: flag for one in command.params for flag in one.opts[:1] if flag.startswith("--")
    }


def in_flags(text: str, flags: Mapping[str, str]) -> str:
    """A message with flags in place of parameters.

    >>> flags = {"task": "--task", "labels": "--labels", "directed": "--directed"}
    >>> in_flags("give labels=, or task='link' (see directed=True); not 'labels=3' or k=3", flags)
    "give --labels, or --task link (see --directed); not 'labels=3' or k=3"
    >>> in_flags("leave them out with ignore=['bio', 'last seen']", {"ignore": "--ignore"})
    "leave them out with --ignore 'bio,last seen'"
    """
    if not flags:
        return text
    names = "|".join(map(re.escape, flags))
    parameter = rf"(?<![^\s(])({names})=(?:({_VALUE})|(?=[\s,.;:)]|$))"
    return re.sub(parameter, lambda found: flags[found[1]] + _argument(found[2]), text)


def _argument(literal: str | None) -> str:
    """A value as it is typed behind its flag.

    >>> _argument("'rgcn'"), _argument("['a', 'b']"), _argument("True"), _argument(None)
    (' rgcn', ' a,b', '', '')
    """
    value = ast.literal_eval(literal) if literal else True
    if value is True:
        return ""
    return " " + shlex.quote(",".join(value) if isinstance(value, list) else str(value))
