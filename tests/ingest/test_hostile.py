"""Every hostile input is answered with the words it deserves, or read as it was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest.hostile import CASES, Case
from nora.cli.errors import _advice
from nora.ingest import read_graph
from nora.limits import memory_limit


def placed(case: Case, folder: Path) -> dict[str, Path]:
    """The case's files."""
    paths = {}
    for role in ("edges", "features", "labels"):
        content = getattr(case, role)
        if content is None:
            continue
        path = paths[role] = folder / case.names.get(role, f"{role}.csv")
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_an_odd_input_is_answered_by_name(case: Case, tmp_path: Path) -> None:
    paths = placed(case, tmp_path)
    options = dict(case.options)
    limit = memory_limit(options.pop("memory", None))
    if case.refused:
        with pytest.raises((ValueError, OSError)) as caught, limit:
            read_graph(**paths, **options)
        message = str(caught.value)
        assert re.search(case.refused, message), message
        assert "\n" not in message
        # The command line shows one line, and no traceback.
        assert _advice(caught.value)
        return
    with limit:
        reading = read_graph(**paths, **options)
    assert not case.noted or re.search(case.noted, "\n".join(reading.notes)), reading.notes
    assert case.check(reading.dataset.data)
