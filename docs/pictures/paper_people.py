"""The page of politicians: who matters on PureP, and whose prediction each would change."""
# ruff: noqa: E501

from __future__ import annotations

from paper_figures import results, row, table

TEXT = """# Politicians

Whose removal from a network of 583 politicians would change the predictions for the others most? TIMME predicts parties from follows, replies,
retweets, likes and mentions on Twitter in 2019 (PureP). Without **{first}**, the predicted probabilities of the other 582 change by {most:.2f} in
total, more than without any other politician ({command}, [table](../results/politicians.md)). Influence is the mean over five models, with minimum
and maximum. Without the first ten, few predictions flip to the other party; each flips in one of the five models.

"""


def politicians() -> str:
    """`docs/politicians.md`."""
    document = results("politicians")
    assert document is not None
    people = document["tables"]["The first ten"]
    cut = document["tables"]["What changes when only their ties of one relation are cut"]
    lines = table(
        "",
        "name",
        "party",
        "influence",
        "minimum, maximum",
        "rank by degree",
        "by PageRank",
        "flips without them",
    )
    for one in people:
        lines.append(
            row(
                str(one["rank"]),
                one["name"],
                one["party"],
                f"{one['influence']:.2f}",
                one["least, most"],
                str(one["rank by degree"]),
                str(one["rank by pagerank"]),
                "–"
                if one["predicted otherwise without them"] == "none"
                else one["predicted otherwise without them"],
            )
        )
    found = [
        sum(one[f"rank by {method}"] <= 10 for one in people) for method in ("degree", "pagerank")
    ]
    lines += [
        "",
        f"{found[0]} of them are among the first ten by degree, {found[1] or 'none'} among the first ten by PageRank.",
        "",
        "## Through which relation",
        "",
        "The total change if only a politician's edges of one relation are removed. The parts need not add up, because a removal "
        "also changes the attention over relations.",
        "",
        *table(*cut[0]),
    ]
    for one in cut:
        lines.append(
            row(one["name"], *(f"{value:.2f}" for key, value in one.items() if key != "name"))
        )
    head = TEXT.format(
        first=people[0]["name"], most=people[0]["influence"], command="`nora reproduce politicians`"
    )
    return head + "\n".join(lines) + "\n"
