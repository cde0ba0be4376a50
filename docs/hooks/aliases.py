"""Signatures that name their types as the API page does: `Nodes`, not what it stands for."""

from __future__ import annotations

import re
from typing import Any

FORWARD = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", plain)
    return {"parallel_read_safe": True}


def plain(
    app: Any,
    what: str,
    name: str,
    value: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Sphinx shows an alias inside a union by the repr of its own stand-in; this is its name alone."""
    return (
        FORWARD.sub(r"\1", signature) if signature else signature,
        FORWARD.sub(r"\1", returns) if returns else returns,
    )
