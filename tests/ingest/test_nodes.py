"""Features and labels: by id, with gaps, and refused with the line where they make no sense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from nora.ingest import read_graph

Write = Callable[[str, str | bytes], Path]


class TestLabels:
    def test_blank_and_missing_labels_are_unknown(self, edges: Path, write: Write) -> None:
        labels = write("l.csv", "id,label\nd,right\na,left\nb,\n")
        dataset = read_graph(edges, labels=labels).dataset
        assert dataset.class_names == ("left", "right")
        assert dataset.num_classes == 2
        assert dataset.data.y.tolist() == [0, -1, -1, 1]

    @pytest.mark.parametrize(
        "text",
        [
            "node,class\na,x\nb,y\nc,x\n",
            "account,camp\na,x\nb,y\nc,x\n",
            "a,x\nb,y\nc,x\n",
            "id;since;label\na;1;x\nb;2;y\nc;3;x\n",
            ",id,label\n0,a,x\n1,b,y\n2,c,x\n",
            ",account,label\n0,a,x\n1,b,y\n2,c,x\n",
            ",label\na,x\nb,y\nc,x\n",
        ],
    )
    def test_columns_are_found(self, text: str, edges: Path, write: Write) -> None:
        dataset = read_graph(edges, labels=write("l.csv", text)).dataset
        assert dataset.class_names == ("x", "y")
        assert dataset.data.y.tolist() == [0, 1, 0, -1]

    def test_a_header_is_one_even_where_a_node_has_its_name(self, write: Write) -> None:
        edges = write("e.csv", "source,target\nid,a\na,b\n")
        dataset = read_graph(edges, labels=write("l.csv", "id,label\nid,x\na,y\n")).dataset
        assert dataset.class_names == ("x", "y")

    def test_classes_that_are_numbers_stand_in_their_order(self, edges: Path, write: Write) -> None:
        labels = write("l.csv", "id,label\na,10\nb,9\nc,10\nd,9\n")
        assert read_graph(edges, labels=labels).dataset.class_names == ("9", "10")

    def test_unknown_ids_are_left_out_and_the_first_is_named(
        self, edges: Path, write: Write
    ) -> None:
        labels = write("l.csv", "id,label\na,x\nzoe,y\nb,y\nyan,x\n")
        reading = read_graph(edges, labels=labels)
        assert reading.dataset.data.y.tolist() == [0, 1, -1, -1]
        (note,) = (note for note in reading.notes if "left out" in note)
        assert note.startswith("the labels of 2 ids")
        assert "'zoe' (l.csv, line 3)" in note

    @pytest.mark.parametrize(
        ("ids", "hint"),
        [("x,y", r"match\?$"), ("A,B", "in lower case"), ("a.0,b.0", r"without '\.0' at the end")],
    )
    def test_ids_of_another_world_are_an_error(
        self, ids: str, hint: str, edges: Path, write: Write
    ) -> None:
        rows = "".join(f"{one},left\n" for one in ids.split(","))
        with pytest.raises(ValueError, match=rf"l\.csv, line 2: none of the 2 ids .*{hint}"):
            read_graph(edges, labels=write("l.csv", f"id,label\n{rows}"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("id,label\na,x\n,y\n", r"l\.csv, line 3: the id is blank"),
            ("id,label\na,x\nb,y\na,y\n", r"l\.csv, line 4: 'a' has a label already.*line 2"),
            ("id,label\na,\nb,\n", r"l\.csv labels no node"),
            ("id,label\na,1.5\nb,1.7\nc,2.2\n", r"are 3 different ones.*measurements"),
            ("id,since,camp\na,1,x\nb,2,y\n", r"column holds the label\?.*since, camp"),
            ("id\na\n", r"l\.csv has one column"),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, text: str, message: str, edges: Path, write: Write
    ) -> None:
        with pytest.raises(ValueError, match=message):
            read_graph(edges, labels=write("l.csv", text))

    def test_the_same_label_twice_is_merged(self, edges: Path, write: Write) -> None:
        reading = read_graph(edges, labels=write("l.csv", "id,label\na,x\na,x\nb,y\n"))
        assert reading.dataset.data.y.tolist()[:2] == [0, 1]
        assert "1 repeated row of l.csv was merged" in reading.notes

    def test_guesses_are_noted(self, edges: Path, write: Write) -> None:
        notes = read_graph(edges, labels=write("l.csv", "account,camp\na,x\nb,y\n")).notes
        text = "\n".join(notes)
        assert "'account' of l.csv" in text and "'camp' of l.csv" in text
        notes = read_graph(edges, labels=write("l.csv", "a,x\nb,y\n")).notes
        assert "column 2 is used as the label" in "\n".join(notes)
        notes = read_graph(edges, labels=write("l.csv", "id,label\na,x\nb,y\n")).notes
        assert not any("used as" in note for note in notes)

    def test_the_label_among_several_columns_can_be_named(self, edges: Path, write: Write) -> None:
        labels = write("l.csv", "id,since,camp\na,1,x\nb,2,y\n")
        assert read_graph(edges, labels=labels, label_column="camp").dataset.class_names == (
            *("x", "y"),
        )
        with pytest.raises(ValueError, match=r"no column 'side'.*id, since, camp"):
            read_graph(edges, labels=labels, label_column="side")

    def test_classes_that_look_like_slips_are_noted(self, edges: Path, write: Write) -> None:
        labels = write("l.csv", "id,label\na,left\nb,Left\nc,left\nd,left\n")
        notes = read_graph(edges, labels=labels).notes
        assert any("classes 'Left' and 'left' differ only" in note for note in notes)
        assert any("1 class has fewer than 3 nodes ('Left': 1)" in note for note in notes)


class TestFeatures:
    def test_numbers_are_standardised_and_0_1_stays(self, edges: Path, write: Write) -> None:
        text = "id,age,member\nd,40,1\na,10,0\nb,20,1\nc,30,0\n"
        reading = read_graph(edges, features=write("f.csv", text))
        x = reading.dataset.data.x
        assert reading.feature_names == ("age", "member")
        torch.testing.assert_close(x[:, 0].mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
        torch.testing.assert_close(x[:, 0].std(correction=0), torch.tensor(1.0))
        assert x[:, 0].argsort().tolist() == [0, 1, 2, 3]
        assert x[:, 1].tolist() == [0, 1, 0, 1]
        assert "numbers was standardised (mean 0, deviation 1)" in "\n".join(reading.notes)

    def test_words_become_0_1_features_and_blank_none_of_them(
        self, edges: Path, write: Write
    ) -> None:
        reading = read_graph(edges, features=write("f.csv", "id,land\na,fr\nb,de\nc,\nd,fr\n"))
        assert reading.feature_names == ("land=de", "land=fr")
        assert reading.dataset.data.x.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]

    def test_gaps_are_the_columns_mean_and_noted(self, edges: Path, write: Write) -> None:
        reading = read_graph(edges, features=write("f.csv", "id,age,vip\na,10,1\nb,,0\nc,30,NA\n"))
        x = reading.dataset.data.x
        assert x.tolist() == [[-1, 1], [0, 0], [1, 0.5], [0, 0.5]]
        assert "2 blank cells of f.csv were filled" in "\n".join(reading.notes)
        assert any("1 node has no row in f.csv" in note for note in reading.notes)

    def test_a_node_with_features_alone_is_part_of_the_graph(
        self, edges: Path, write: Write
    ) -> None:
        features = write("f.csv", "id,age\na,1\nb,2\nc,3\nd,4\nhermit,5\n")
        labels = write("l.csv", "id,label\nhermit,x\na,y\n")
        reading = read_graph(edges, features, labels)
        assert reading.dataset.node_names == ("a", "b", "c", "d", "hermit")
        assert reading.dataset.data.y.tolist() == [1, -1, -1, -1, 0]
        assert "f.csv has no edge (e.g. 'hermit')" in "\n".join(reading.notes)

    def test_parquet_features_keep_their_numbers(self, edges: Path, tmp_path: Path) -> None:
        frame = pd.DataFrame({"id": list("abcd"), "share": [0.1, 0.2, None, 0.9]})
        frame.to_parquet(tmp_path / "f.parquet")
        x = read_graph(edges, features=tmp_path / "f.parquet").dataset.data.x
        known = torch.tensor([0.1, 0.2, 0.9])
        expected = (known - known.mean()) / known.std(correction=0)
        torch.testing.assert_close(x[[0, 1, 3], 0], expected)
        assert x[2, 0] == 0

    def test_a_column_called_label_holds_the_labels(self, edges: Path, write: Write) -> None:
        features = write("f.csv", "id,age,label\na,1,x\nb,2,y\nc,3,x\nd,4,y\n")
        reading = read_graph(edges, features)
        assert reading.feature_names == ("age",)
        assert reading.dataset.data.y.tolist() == [0, 1, 0, 1]
        labels = write("l.csv", "id,label\na,y\nb,x\n")
        other = read_graph(edges, features, labels)
        assert other.feature_names == ("age",)
        assert other.dataset.data.y.tolist() == [1, 0, -1, -1]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("id,age\na,1\nb,x\nc,3\n", r"f\.csv, line 3: 'x'.*'age' is not a number"),
            ("id,age\na,1\nb,inf\nc,3\n", "3: 'inf' in the column 'age'.*fin"),
            ("id,age\na,1\nb,2\na,3\n", r"f\.csv, line 4: 'a' has features already.*line 2"),
            ("id,age\na,1\n,2\n", r"f\.csv, line 3: the id is blank"),
            ("id,age\na,1\nb\n", r"f\.csv, line 3: 1 column.*few"),
            ("id,age\nx,1\ny,2\n", r"2: none of the 2 ids.*ids match\?"),
            ("", r"f\.csv is empty"),
        ],
    )
    def test_what_cannot_be_is_refused_with_its_line(
        self, text: str, message: str, edges: Path, write: Write
    ) -> None:
        with pytest.raises(ValueError, match=message):
            read_graph(edges, features=write("f.csv", text))

    def test_too_many_words_are_refused_with_advice(self, edges: Path, write: Write) -> None:
        rows = "".join(f"n{k},text {k}\n" for k in range(60))
        with pytest.raises(ValueError, match=r"'bio' holds 61 different words.*ignore=\['bio'\],"):
            read_graph(edges, features=write("f.csv", f"id,bio\na,me\n{rows}"))

    def test_all_columns_that_cannot_be_used_are_listed_and_can_be_ignored(
        self, edges: Path, write: Write
    ) -> None:
        rows = "".join(f"n{k},text {k},{k},on day {k}\n" for k in range(60))
        features = write("f.csv", f"id,bio,age,last seen\na,me,1,now\n{rows}")
        with pytest.raises(ValueError, match=r"2 columns cannot.*ignore=\['bio', 'last seen'\]"):
            read_graph(edges, features)
        assert read_graph(edges, features, ignore=["bio", "Last Seen"]).feature_names == ("age",)

    def test_what_parquet_cannot_give_as_text_can_be_ignored(
        self, edges: Path, tmp_path: Path
    ) -> None:
        frame = pd.DataFrame({"id": list("ab"), "tags": [["x"], ["y", "z"]], "age": [1, 2]})
        frame.to_parquet(tmp_path / "f.parquet")
        with pytest.raises(ValueError, match=r"column 'tags' holds list.*ignore=\['tags'\]"):
            read_graph(edges, tmp_path / "f.parquet")
        reading = read_graph(edges, tmp_path / "f.parquet", ignore=["tags"])
        assert reading.feature_names == ("age",)

    def test_a_column_without_a_value_is_left_out_with_a_note(
        self, edges: Path, write: Write
    ) -> None:
        reading = read_graph(edges, write("f.csv", "id,age,old\na,1,\nb,2,NA\nc,3,\nd,4,\n"))
        assert reading.feature_names == ("age",)
        assert "column 'old' of f.csv is blank" in "\n".join(reading.notes)
        assert not any("filled" in note for note in reading.notes)
        with pytest.raises(ValueError, match=r"f\.csv has no column of features"):
            read_graph(edges, write("f.csv", "id,old\na,\nb,\n"))

    def test_dates_are_numbers_of_days(self, edges: Path, write: Write) -> None:
        text = "id,since\na,2024-01-01\nb,2024-01-02T12:00:00Z\nc,2024-01-04\nd,\n"
        reading = read_graph(edges, features=write("f.csv", text))
        days = torch.tensor([0, 1.5, 3])
        expected = (days - days.mean()) / days.std(correction=0)
        torch.testing.assert_close(reading.dataset.data.x[:3, 0], expected)
        assert reading.dataset.data.x[3, 0] == 0
        assert "1 column of dates was turned" in "\n".join(reading.notes)

    def test_a_column_can_be_named_as_the_label(self, edges: Path, write: Write) -> None:
        features = write("f.csv", "id,age,party\na,1,x\nb,2,y\nc,3,x\nd,4,y\n")
        reading = read_graph(edges, features, label_column="party")
        assert reading.dataset.class_names == ("x", "y")
        assert reading.feature_names == ("age",)
        both = write("g.csv", "id,class,party\na,p,x\nb,q,y\nc,p,x\nd,q,y\n")
        notes = read_graph(edges, both, label_column="party").notes
        assert any("g.csv is used as a feature" in note for note in notes)
        with pytest.raises(ValueError, match=r"'partei': there are age, party\..*'party'"):
            read_graph(edges, features, label_column="partei")
        with pytest.raises(ValueError, match=r"called 'party': there are no features"):
            read_graph(edges, label_column="party")
