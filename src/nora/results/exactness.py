"""Whether scores are the definition's own numbers, and what their method is called.

An estimate is called one wherever it is shown. Where its first nodes were computed exactly besides
(`nora.questions.refine`), `details["refined"]` lists which, and how far the others may be off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nora.results.edge_influence import EdgeInfluence
from nora.results.influence import Influence
from nora.wording import number, percent

# Scores of a node's place in the graph: no estimate of its influence, but another quantity.
YARDSTICKS = ("degree", "pagerank", "random")
TITLES = {"degree": "Degree", "pagerank": "PageRank", "random": "Random score"}


def is_exact(scores: Influence | EdgeInfluence) -> bool:
    """Whether the scores are the definition's numbers.

    >>> import torch
    >>> is_exact(Influence(torch.ones(2), "exact", options={"tolerance": 0.01}))
    False
    """
    return scores.method == "brute" or (
        scores.method == "exact" and not scores.options.get("tolerance")
    )


def method_name(scores: Influence | EdgeInfluence) -> str:
    """The method as tables and pages call it.

    >>> import torch
    >>> method_name(Influence(torch.ones(2), "exact")), method_name(Influence(torch.ones(2), "cauchy"))
    ('exact', 'estimate by cauchy')
    >>> method_name(Influence(torch.ones(2), "exact", options={"tolerance": 0.01}))
    'estimate by exact with tolerance 0.01'
    """
    if is_exact(scores) or scores.method in YARDSTICKS:
        return scores.method
    pruned = scores.options.get("tolerance")
    how = f"{scores.method} with tolerance {pruned:g}" if pruned else scores.method
    return f"estimate by {how}"


def refinement(scores: Influence) -> Mapping[str, Any] | None:
    """Facts about an estimate: which nodes are exact, and its agreement with `exact`."""
    found = scores.details.get("refined")
    return found if isinstance(found, Mapping) else None


def accuracy_text(facts: Mapping[str, Any]) -> str:
    """How far an estimate can be trusted, in a sentence; empty where nothing was measured.

    >>> facts = {"sampled": 120, "spearman": 0.89, "median_error": 0.42, "factor": 2.1}
    >>> accuracy_text(facts).replace("\\u202f", " ")
    'On 120 sampled nodes, Spearman 0.890, median error 42 %; four of five are within a factor of 2.1.'
    """
    parts = []
    for key, title in (("pearson", "Pearson"), ("spearman", "Spearman")):
        value = facts.get(key)
        if value is not None and value == value:
            parts.append(f"{title} {value:.3f}")
    if facts.get("median_error") is not None:
        parts.append(f"median error {percent(facts['median_error'])}")
    if not parts:
        return ""
    within = (
        f"; four of five are within a factor of {number(facts['factor'])}"
        if facts.get("factor")
        else ""
    )
    return f"On {facts['sampled']:,} sampled nodes, {', '.join(parts)}{within}."
