"""The page of politicians: who matters on PureP, and whom each would change."""
# ruff: noqa: E501

from __future__ import annotations

from paper_figures import results, row, table

TEXT = """# Politicians

Whose removal from a network of 583 politicians would change the others most? TIMME tells their parties from whom they
follow, reply to, retweet, like and mention on Twitter in 2019 (PureP). Without **{first}** the predicted probabilities of
the other 582 change by {most:.2f} in all, more than without anybody else ({command}, [table](../results/politicians.md)).
Influence is the mean over five models, with the least and the most. Of the others nearly nobody would be taken for a member
of the other party: a few, and in one model of five.

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
        "least, most",
        "rank by degree",
        "by PageRank",
        "predicted otherwise without them",
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
                one["predicted otherwise without them"],
            )
        )
    found = [
        sum(one[f"rank by {method}"] <= 10 for one in people) for method in ("degree", "pagerank")
    ]
    lines += [
        "",
        f"Among the first ten by degree are {found[0]} of them, among the first ten by PageRank {found[1] or 'none'}.",
        "",
        "## Through which relation",
        "",
        "What changes when a politician's ties of one relation alone are cut; the parts need not add up, since a removal also "
        "changes how the relations are weighed:",
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
