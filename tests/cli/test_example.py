"""`nora example`: files to try."""

from __future__ import annotations

from pathlib import Path

import nora
from shell import document, ok, refused


class TestExample:
    def test_its_files_are_what_run_reads(self, tmp_path: Path) -> None:
        files = {
            key: Path(path) for key, path in document("example", tmp_path / "e")["files"].items()
        }
        dataset = nora.ingest.read_graph(**files).dataset
        original = nora.load_dataset("polarised")
        assert set(dataset.node_names or ()) == set(original.node_names or ())
        assert dataset.data.num_edges == original.data.num_edges
        assert int((dataset.data.y < 0).sum()) == 100
        camp = dict(zip(original.node_names or (), original.data.y.tolist(), strict=True))
        for name, label in zip(dataset.node_names or (), dataset.data.y.tolist(), strict=True):
            assert label in (-1, camp[name])

    def test_it_prints_the_command_to_try(self, tmp_path: Path) -> None:
        text = ok("example", tmp_path / "e")
        assert f"nora run --edges {tmp_path / 'e' / 'edges.csv'}" in text
        assert "exists already; name a new folder" in refused("example", tmp_path / "e")
        assert "Example:" in ok("example", "--help")
