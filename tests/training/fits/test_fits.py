"""Which way a network is fitted: known by training alone."""

from __future__ import annotations

import nora
from nora.models import MODELS
from nora.training.fits import FITS, fit_for

SIZES = {"timme": {"relations": ["friend"]}, "rgcn": {"num_relations": 2}}


def test_every_model_has_the_way_that_is_made_for_it_or_the_plain_one() -> None:
    own = {"drgat": "distillation", "timme": "joint"}
    for entry in MODELS:
        network = nora.build_model(entry.name, 6, 2, **SIZES.get(entry.name, {}))
        assert fit_for(network) is FITS[own.get(entry.name, "plain")].value, entry.name


def test_models_do_not_say_how_they_are_trained() -> None:
    assert not [entry.name for entry in MODELS if hasattr(entry.facts, "fit")]


def test_a_network_derived_from_another_is_fitted_as_that_one_is() -> None:
    class Sibling(MODELS["drgat"].value):  # type: ignore[misc]
        pass

    assert fit_for(Sibling(6, 2)) is FITS["distillation"].value
