"""The options of a session that the questions of `nora` take, declared once."""

from __future__ import annotations

import inspect

import pytest

import nora
from graphs import double, two_camps
from networks import network

ALL = ["forward", "transform", "targets", "names", "class_names", "strict"]
COUNTING = ["what_if", "top", "best_group", "influence_matrix", "fragile", "edge_influence"]


@pytest.mark.parametrize("name", COUNTING)
def test_a_question_shows_every_option_of_the_session_and_describes_it_as_the_session_does(
    name: str,
) -> None:
    function = getattr(nora, name)
    shown = inspect.signature(function).parameters
    session = inspect.signature(nora.Session).parameters
    assert [key for key in shown if key in ALL] == ALL
    assert all(shown[key].default == session[key].default for key in ALL)
    assert not any(one.kind is one.VAR_KEYWORD for one in shown.values())
    described = "        transform: `data -> data`, applied to the graph"
    assert described in (nora.Session.__doc__ or "")
    assert described in function.__doc__
    assert "**about" not in function.__doc__


@pytest.mark.parametrize("name", ["flip", "influencers"])
def test_a_question_about_one_node_takes_no_targets(name: str) -> None:
    assert "targets" not in inspect.signature(getattr(nora, name)).parameters
    with pytest.raises(TypeError, match=f"{name} has no option 'targets'"):
        getattr(nora, name)(network(), two_camps(), 0, targets=[1])


def test_an_option_that_is_misspelt_is_named_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"option 'target'\. Did you mean 'targets'\?"):
        nora.top(network(), two_camps(), k=1, target=[1])


def test_an_option_of_the_session_is_used() -> None:
    data = double(two_camps())
    names = [f"node {node}" for node in range(data.num_nodes)]
    found = nora.what_if(network(), data, 0, names=names, targets=[1, 2])
    assert found.names == tuple(names)
    assert set(found.counted.nonzero().flatten().tolist()) == {1, 2}
