"""Write `members.json` of every family: what `nora methods`, `models` and `datasets` list without torch."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from nora.datasets import DATASETS
from nora.experiments import RECIPES
from nora.methods import METHODS
from nora.models import MODELS
from nora.registry import TABLE
from nora.strict_json import json_text

for family in (METHODS, MODELS, DATASETS, RECIPES):
    table = Path(str(resources.files(family.package))) / TABLE
    table.write_text(json_text(family.members()) + "\n", encoding="utf-8")
