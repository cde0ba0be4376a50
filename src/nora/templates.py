"""Render HTML from template files, which escape all names and texts, as these are untrusted."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(package: str, template: str, **values: Any) -> str:
    """A template in the folder `templates` of a package, filled in.

    >>> "&lt;b&gt;" in render("nora.results.plots", "table.html", title="<b>", about="", columns=[], rows=[])
    True
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    # Imported here, so that `import nora` and `nora --help` stay quick.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # How `tojson` writes: short, in the order given, and NaN is refused, as JSON has none.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment
