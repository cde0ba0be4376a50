"""The compiled loops: what is kept of them on disk."""

from __future__ import annotations

import os
from pathlib import Path

from nora.engine.exec.kernels import compiled


def test_cached_loops_older_than_what_they_read_are_deleted(tmp_path: Path) -> None:
    """Numba would fail to read them: their index names classes that may be gone."""
    old, new, other = tmp_path / "loops.a.nbi", tmp_path / "loops.b.nbc", tmp_path / "other.nbi"
    for path in (old, new, other):
        path.write_bytes(b"")
    for path in (old, other):
        os.utime(path, (0, 0))
    compiled._drop_stale_cache(tmp_path)
    assert sorted(tmp_path.iterdir()) == [new, other]
