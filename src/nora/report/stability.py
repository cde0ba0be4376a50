"""The section on whether the ranking holds for other seeds and architectures."""

from __future__ import annotations

from typing import Any

from nora.report.subject import Subject
from nora.results.plots.stability import influence_shares
from nora.results.stability import Stability
from nora.wording import number, percent

WIDTH, EDGE = 200.0, 6.0
TITLES = {
    "holds": "The ranking holds for other models",
    "holds in part": "The ranking holds in part for other models",
    "is decided by one model": "The ranking is decided by this one model",
}


def stability_section(found: Stability, subject: Subject) -> dict[str, Any]:
    """The values for the template.

    Args:
        found: Influences of several models, this page's first.
        subject: What the page is about, for names.
    """
    values = influence_shares(found)[:, found.first]
    largest = float(values.max()) or 1.0

    def place(value: float) -> str:
        return f"{EDGE + (WIDTH - 2 * EDGE) * value / largest:.1f}"

    mean, spread, alone = found.mean, found.spread, set(found.alone)
    rows = []
    for column, node in enumerate(found.first):
        mine, ranks = values[:, column], found.ranks[:, node]
        low, high = percent(float(mine.min()) / 100), percent(float(mine.max()) / 100)
        rows.append(
            {
                "node": node,
                "name": subject.name(node),
                "rank": column + 1,
                "alone": node in alone,
                "text": f"between {low} and {high} of all influence",
                "low": place(float(mine.min())),
                "high": place(float(mine.max())),
                "dots": [place(float(value)) for value in mine[1:]],
                "here": place(float(mine[0])),
                "mean": f"{number(float(mean[node]))} ± {number(float(spread[node]))}",
                "ranks": f"{int(ranks.min())} to {int(ranks.max())}",
                "times": f"{int(found.times_first[node])} of {len(found.members)}",
            }
        )
    return {
        "title": TITLES[found.verdict],
        "text": found.finding,
        "k": found.k,
        "rows": rows,
        "models": [(str(member), _judged(found, k)) for k, member in enumerate(found.members)],
    }


def _judged(found: Stability, k: int) -> str:
    """How good a model is, and how far it agrees with this page's."""
    member = found.members[k]
    weak = ", weak" if member.weak else ""
    own = f"{member.metric} {member.value:.3f}{weak}"
    if k == 0:
        return f"{own}; this page"
    pairs = found.agreement()
    here = pairs[(pairs["model"] == str(found.members[0])) & (pairs["other"] == str(member))]
    return f"{own}; Spearman {float(here['spearman'].iloc[0]):.2f} with this page’s"
