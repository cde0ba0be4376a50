"""Numbers as people write them: three digits that matter, thousands apart, 1st, 2nd, 3rd, 2 min 5 s."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from math import isfinite, log10
from numbers import Integral, Real
from typing import Any

# `--task`, `task='link'`, `directed=True`, `labels=`; but `p=0.4` is not an option.
_OPTION = r"(?<![^\s(])(?:--\w|[a-z_]+=(?:['\"\[]|True\b|(?=[\s,.;:)]|$)))"


def number(value: float) -> str:
    """Three significant digits, thousands apart.

    >>> number(9.3297), number(0.012345), number(123456.7), number(3.0), number(0.0)
    ('9.33', '0.0123', '123,457', '3', '0')
    """
    if not isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    places = max(0, 2 - int(log10(abs(value)) // 1))
    text = f"{value:.{places}f}" if places <= 6 else f"{value:.2e}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def percent(share: float) -> str:
    """A share in per cent, two digits; number and sign stay on one line.

    >>> [percent(share).replace("\u202f", " ") for share in (0.143, 0.0042, 1)]
    ['14 %', '0.42 %', '100 %']
    """
    value = 100 * share
    text = f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
    return f"{text}\u202f%"


def ordinal(rank: int) -> str:
    """A rank in words.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 21, 112, 1003)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st', '112th', '1,003rd']
    """
    ending = (
        "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    )
    return f"{rank:,}{ending}"


def count(amount: int, one: str, many: str | None = None) -> str:
    """An amount with its noun.

    >>> count(1, "node"), count(1200, "node"), count(0, "class", "classes")
    ('1 node', '1,200 nodes', '0 classes')
    """
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def listed(items: Iterable[Any], most: int = 10) -> str:
    """The first of a list, and how many more there are.

    >>> listed(["a", "b"]), listed(range(1000), 3)
    ('a, b', '0, 1, 2 and 997 more')
    """
    every = [str(item) for item in items]
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most:,} more"


def short(text: Any, most: int = 300) -> str:
    """A text in one line, cut where it is long.

    >>> short("a\\tb"), short("a" * 500, 3)
    ('a b', 'aaa …')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[:most]} …"


def visible(text: str) -> str:
    """A text whose direction nothing in it turns round: characters that would are written as their codes.

    >>> visible("a\\u202egpj")
    'a\\\\u202egpj'
    """
    return re.sub(
        "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", lambda one: f"\\u{ord(one[0]):04x}", text
    )


def duration(seconds: float) -> str:
    """How long something took.

    >>> duration(0.0021), duration(0.47), duration(60), duration(75), duration(7300)
    ('2 ms', '0.47 s', '1 min', '1 min 15 s', '2 h 1 min')
    """
    if math.isinf(seconds):
        return "any time"
    if seconds < 0.01:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    large, small = ((60, "min"), (1, "s")) if whole < 3600 else ((3600, "h"), (60, "min"))
    rest = whole % large[0] // small[0]
    return f"{whole // large[0]} {large[1]}" + (f" {rest} {small[1]}" if rest else "")


def cell(value: Any) -> str:
    """A value in a table: four decimals, or three digits of what is small; yes or nothing.

    >>> cell(1234.5), cell(0.00123456), cell(7), cell(True), cell(False), cell("Ada")
    ('1,234.5000', '0.00123', '7', 'yes', '', 'Ada')
    """
    if (
        isinstance(value, bool) or type(value).__name__ == "bool_"
    ):  # NumPy's own is none of Python's
        return "yes" if value else ""
    if isinstance(value, Real) and not isinstance(value, Integral):
        size = float(value)
        return f"{size:,.4f}" if abs(size) >= 0.01 or size == 0 else f"{size:.3g}"
    return str(value)


def fixed(value: Any) -> str:
    """A value in a table of results: three digits after the point, unknown numbers as a dash.

    >>> fixed(0.9), fixed(12345.6), fixed(float("nan")), fixed("a"), fixed(-0.0001)
    ('0.900', '12,346', '–', 'a', '0.000')
    """
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "–"
    text = f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def sentence(text: str) -> str:
    """A remark for readers of a page: whole sentences, no advice on flags and parameters.

    >>> sentence("the model is weak, e.g. on hubs. Another --model may help")
    'The model is weak, e.g. on hubs.'
    >>> sentence("edges go both ways (see directed=True)"), sentence("chance is likely (p=0.4)")
    ('Edges go both ways.', 'Chance is likely (p=0.4).')
    """
    text = re.sub(rf"\s*\([^()]*{_OPTION}[^()]*\)", "", text)
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text.strip())
    # A remark that is about nothing but options is better than none.
    kept = [part for part in parts if not re.search(_OPTION, part)] or parts
    text = " ".join(kept)
    ended = text.endswith((".", "!", "?", "…")) or not text
    return text[:1].upper() + text[1:] + ("" if ended else ".")
