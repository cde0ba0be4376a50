"""Docstrings head their doctests with `Example:`; Griffe knows this section as `Examples:`."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Shows doctests as code, with their output."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section where there is one."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
