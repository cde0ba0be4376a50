"""Recipes that ask why NORA does as it does: other options, and models trained for shorter and longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nora.experiments import RECIPES
from nora.experiments.cells import PROFILES, Cell
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.other_options import OtherOptions
from nora.experiments.skew import top_share
from nora.experiments.training_length import EPOCHS, STOPPED, trained_for
from nora.results.agreement import pearson

CELL = Cell("karate", "gcn", "node")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """All tests share their work."""
    cache = tmp_path_factory.mktemp("cache")
    return Lab(cache, PROFILES["quick"], ("karate",), ("gcn",), ("node",), cycles=2, share=0.3)


def test_models_trained_for_so_many_epochs_are_those_of_that_epoch(lab: Lab) -> None:
    short, long = (trained_for(lab, CELL, 1, epochs) for epochs in (2, 9))
    assert (short.metrics["epochs"], long.metrics["epochs"]) == (2, 9)
    assert long.metrics["best_epoch"] == 9  # the last, whatever validation would say
    # Early stopping goes through the same weights, and keeps some of them.
    chosen = lab.run(CELL, 1)
    same = trained_for(lab, CELL, 1, int(chosen.metrics["best_epoch"]))
    assert same.metrics["test_accuracy"] == chosen.metrics["test_accuracy"]
    for name, weights in chosen.model.state_dict().items():
        torch.testing.assert_close(same.model.state_dict()[name], weights)


def test_the_length_of_training_is_shown_beside_the_main_table(lab: Lab) -> None:
    (_, means), (_, table) = RECIPES["length"].value.report(lab).tables
    rows = table.set_index("trained")
    assert means["trained"].tolist() == [*(f"{k} epochs" for k in EPOCHS), STOPPED]
    scores, truth = lab.mean_scores(CELL, "nora"), lab.mean_scores(CELL, TRUTH)
    unseen = torch.ones(34, dtype=torch.bool)
    unseen[lab.labelled(CELL)] = False
    expected = pearson(scores[unseen], truth[unseen])
    assert rows.loc[STOPPED, "nora"] == pytest.approx(expected, abs=1e-6)
    assert rows.loc[STOPPED, "top 10 % have"] == top_share(truth.double().numpy(), 10)
    with pytest.raises(ValueError, match="--tasks node"):
        RECIPES["length"].value.plan(replace(lab, tasks=("link",)))


def test_options_are_found_on_the_nodes_that_are_seen_and_measured_on_the_others(
    lab: Lab,
) -> None:
    truths = [one.scores for one in lab.all_scores(CELL, TRUTH)]
    models = OtherOptions([lab.run(CELL, cycle) for cycle in range(2)], truths, lab.seed)
    seen = lab.labelled(CELL)
    assert models.options(seen) == lab.tuned(CELL, "nora").options
    unseen = torch.ones(34, dtype=torch.bool)
    unseen[seen] = False
    scores = models.scores(models.options(seen))
    torch.testing.assert_close(scores, lab.mean_scores(CELL, "nora"))
    expected = pearson(scores[unseen], models.truth[unseen])
    assert models.agreement(scores, seen) == pytest.approx(expected)
    poisoned = [truth.where(~unseen, torch.tensor(1e6)) for truth in truths]
    assert replace(models, truths=poisoned).options(seen) == models.options(seen)
    table = RECIPES["tuning"].value.report(lab).tables[1][1]
    assert table["here"][0] == pytest.approx(expected)
