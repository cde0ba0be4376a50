"""Ids in two spellings: merged if a column of floats is the cause, reported if a person must look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from nora.ingest import read_graph

Write = Callable[[str, str | bytes], Path]


class TestFloats:
    def test_in_one_edge_list_they_are_joined_and_noted(self, write: Write) -> None:
        path = write("e.csv", "source,target\n1000,2000.0\n2000,1000.0\n1000,7.0\nann,2000.0\n")
        reading = read_graph(path, directed=True)
        assert reading.dataset.node_names == ("1000", "2000", "7", "ann")
        assert reading.dataset.data.edge_index.tolist() == [[0, 0, 1, 3], [1, 2, 0, 1]]
        (note,) = (note for note in reading.notes if "'.0'" in note)
        assert note.startswith("3 ids of e.csv written with '.0' (e.g. '2000.0')")

    def test_across_files_they_are_joined(self, tmp_path: Path, write: Write) -> None:
        edges = write("e.csv", "source,target\n1,2\n2,3\n3,4\n")
        frame = pd.DataFrame({"id": [1.0, 2.0, 3.0, 4.0], "age": [1, 2, 3, 4]})
        frame.to_parquet(tmp_path / "f.parquet")
        frame.to_csv(tmp_path / "f.csv", index=False)
        labels = write("l.csv", "1.0,x\n2.0,y\n3.0,x\n")  # no header: none must be guessed
        for features in (tmp_path / "f.parquet", tmp_path / "f.csv"):
            reading = read_graph(edges, features, labels)
            assert reading.dataset.node_names == ("1", "2", "3", "4")
            assert reading.dataset.data.y.tolist() == [0, 1, 0, -1]
            assert reading.dataset.data.x[:, 0].argsort().tolist() == [0, 1, 2, 3]
        notes = [note for note in reading.notes if "'.0'" in note]
        assert [note.split(" written")[0] for note in notes] == [
            *("4 ids of f.csv", "3 ids of l.csv")
        ]

    def test_rows_that_become_the_same_must_agree(self, write: Write) -> None:
        edges = write("e.csv", "source,target\n1,2\n2,3\n")
        with pytest.raises(ValueError, match=r"l\.csv, line 3: '1' has a label already"):
            read_graph(edges, labels=write("l.csv", "id,label\n1,x\n1.0,y\n2,y\n"))

    def test_alone_they_stay_as_they_are(self, write: Write) -> None:
        reading = read_graph(write("e.csv", "source,target\n1.0,2.0\n2.0,v3.0\n"))
        assert reading.dataset.node_names == ("1.0", "2.0", "v3.0")
        assert not any("'.0'" in note for note in reading.notes)

    @pytest.mark.parametrize("odd", ["v2.0", "007.0", "1.0.0"])
    def test_beside_other_names_in_0_it_is_asked(self, odd: str, write: Write) -> None:
        path = write("e.csv", f"source,target\n1,a\n1.0,b\n{odd},1\n")
        with pytest.raises(ValueError, match=rf"line 4: are '1' and '1\.0',.*'{odd}' ends in"):
            read_graph(path)


class TestAlike:
    def test_case_and_blanks_keep_nodes_apart_with_a_note(self, write: Write) -> None:
        text = "source,target\nAnn Lee,bob\nann lee,bob\nAnn\u00a0Lee,\u00a0Bob \n"
        reading = read_graph(write("e.csv", text))
        assert len(reading.dataset.node_names or ()) == 5
        (note,) = (note for note in reading.notes if "blanks or encoding" in note)
        assert note.startswith(
            "3 ids differ from others only in case, blanks or encoding (e.g. 'Ann Lee' and"
        )

    def test_ids_of_other_files_count_too(self, edges: Path, write: Write) -> None:
        reading = read_graph(edges, labels=write("l.csv", "id,label\nA,x\na,y\nb,x\n"))
        assert any("1 id differs from another" in note for note in reading.notes)
        assert "1 of the 3 ids in l.csv" in reading.unmatched and "'A', line 2" in reading.unmatched

    def test_nothing_is_said_where_there_is_nothing(self, edges: Path) -> None:
        assert not any("blanks" in note for note in read_graph(edges).notes)


def test_ids_that_unicode_writes_in_two_ways_are_reported(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nzo\u00eb,bob\nzoe\u0308,bob\n")
    found = read_graph(tmp_path / "edges.csv")
    assert found.dataset.data.num_nodes == 3
    assert any("only in case, blanks or encoding" in note for note in found.notes)
