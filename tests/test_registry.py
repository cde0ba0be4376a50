"""Unknown names are answered with the nearest known one."""

from __future__ import annotations

import pytest

import nora
from graphs import bridge, double
from networks import network
from nora.datasets import DATASETS
from nora.methods import METHODS
from nora.models import MODELS


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("page-rank", "pagerank"), ("Brute", "brute"), ("nora_t1", "nora-t1"), ("degrees", "degree")],
)
def test_an_unknown_method_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=f"unknown method '{typed}'. Did you mean '{meant}'\\? Known:"
    ):
        nora.influence(network(), double(bridge()), typed)


def test_a_name_far_from_all_gets_the_list_alone() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'xyzzyx'\. Known: .*brute.*pagerank"):
        nora.influence(network(), double(bridge()), "xyzzyx")


def test_unknown_models_and_datasets_are_answered_too() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'gcn2'\. Did you mean 'gcn(ii)?'"):
        nora.build_model("gcn2", 3, 2)
    with pytest.raises(ValueError, match=r"unknown dataset 'core'\. Did you mean 'cora'"):
        nora.load_dataset("core")


def test_an_unknown_option_is_answered_with_the_nearest_and_the_list() -> None:
    with pytest.raises(
        TypeError,
        match=r"method 'nora' has no option 'betta'\. Did you mean 'beta'\? It takes: beta, p",
    ):
        nora.influence(network(), double(bridge()), "nora", betta=3)
    with pytest.raises(TypeError, match=r"method 'degree' has no option 'beta'\..* no options"):
        nora.influence(network(), double(bridge()), "degree", beta=3)


@pytest.mark.parametrize("family", [METHODS, MODELS, DATASETS], ids=lambda family: family.kind)
def test_families_list_their_members_in_order(family: object) -> None:
    names = [entry.name for entry in family]  # type: ignore[attr-defined]
    assert names == sorted(set(names))
    assert all(family[name].name == name for name in names)  # type: ignore[index]
