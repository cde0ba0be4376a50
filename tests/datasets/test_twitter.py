"""Twitter's politicians and followers, read from TIMME's layout: the real files and a tiny folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nora
from nora.datasets import DatasetUnavailableError, twitter
from nora.datasets.twitter import RELATIONS, URL

IDS = [900, 12, 1082023991349575680, 77, 13, 500]
DICT = [
    ("name", "twitter_id", "twitter_name", "party"),
    ("Ann Able", 900, "ann", "D"),
    ('"Bo, Earl ""B"""', 77, "bo", "R"),
    ("Cy Clear", 13, "cy", "I"),
    ("Not Here", 4, "missing", "R"),
]
MORE = [("twitter_id", "party"), (12, "R"), (900, "R"), (1082023991349575680, "I"), (4444, "D")]
# 500 is listed, but takes part in nothing.
LINKS = {
    "friend": [(900, 12, 1), (12, 900, 1), (77, 1082023991349575680, 1)],
    "reply": [(12, 13, 6), (12, 12, 177)],
    "retweet": [(900, 77, 2), (77, 12, 1)],
    "favorite": [(900, 13, 3), (900, 77, 1)],
    "mention": [(13, 12, 1), (13, 900, 5), (13, 77, 1)],
}


def write(path: Path, rows: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def write_relation(base: Path, relation: str, links: list | None = None) -> Path:
    path = base / f"{relation}_list.csv"
    write(path, [("user_id", "other", "count"), *(LINKS[relation] if links is None else links)])
    return path


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like P_20_50 for six users, of whom five take part; its counts are the published ones."""
    base = tmp_path / "given" / "TIMME" / "P_20_50"
    write(base / "all_twitter_ids.csv", [("twitter_id",), *((one,) for one in IDS)])
    write(base / "dict.csv", DICT)
    write(base.parent / "additional_labels" / "new_dict_cleaned.csv", MORE)
    for relation in RELATIONS:
        write_relation(base, relation)
    published = twitter._published("P_20_50", 5, (3, 2, 2, 2, 3), twitter.MORE_LABELS)
    monkeypatch.setitem(twitter.PUBLISHED, "p-20-50", published)
    monkeypatch.setenv("NORA_DATA", str(tmp_path / "given"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return base


def test_users_are_those_who_take_part_in_the_order_of_the_list(tiny: Path) -> None:
    data = nora.load_dataset("p-20-50").data
    assert data.node_types == ["user"]
    assert data["user"].twitter_id.tolist() == IDS[:5]
    assert data["user"].num_nodes == 5
    assert data["user"].x.tolist() == [0, 1, 2, 3, 4]
    assert data["user"].x.dtype == torch.long


def test_relations_keep_their_order_direction_loops_and_counts(tiny: Path) -> None:
    data = nora.load_dataset("p-20-50").data
    assert data.edge_types == [("user", relation, "user") for relation in RELATIONS]
    reply = data["user", "reply", "user"]
    assert reply.edge_index.tolist() == [[1, 1], [4, 1]]
    assert reply["count"].tolist() == [6, 177]
    assert data["user", "mention", "user"].edge_index.tolist() == [[4, 4, 4], [1, 0, 3]]


def test_independents_and_strangers_have_no_label_and_politicians_keep_theirs(tiny: Path) -> None:
    dataset = nora.load_dataset("p-20-50")
    assert dataset.data["user"].y.tolist() == [0, 1, -1, 1, -1]
    assert (dataset.num_classes, dataset.class_names) == (2, ("Democrat", "Republican"))


def test_politicians_have_names_and_others_their_id(tiny: Path) -> None:
    assert nora.load_dataset("p-20-50").node_names == (
        "Ann Able",
        "user 12",
        "user 1082023991349575680",
        'Bo, Earl "B"',
        "Cy Clear",
    )


def test_the_split_is_that_of_the_paper(tiny: Path) -> None:
    dataset = nora.load_dataset("p-20-50")
    assert dataset.node_ratios == dataset.link_ratios == (0.8, 0.1, 0.1)
    assert dataset.negatives == 3


def test_lines_that_repeat_a_link_are_one_link_and_add_up(tiny: Path) -> None:
    write_relation(tiny, "reply", [(12, 13, 6), (12, 12, 177), (12, 13, 4)])
    reply = nora.load_dataset("p-20-50").data["user", "reply", "user"]
    assert reply.edge_index.tolist() == [[1, 1], [4, 1]]
    assert reply["count"].tolist() == [10, 177]


def test_every_missing_file_is_named_with_its_source_and_place(tiny: Path) -> None:
    for relation in ("retweet", "mention"):
        (tiny / f"{relation}_list.csv").unlink()
    (tiny.parent / twitter.MORE_LABELS).unlink()
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("p-20-50")
    message = str(caught.value)
    missing = f"{twitter.MORE_LABELS}, P_20_50/retweet_list.csv, P_20_50/mention_list.csv"
    assert f"Missing: {missing}" in message
    assert URL in message
    assert f"put them into {tiny.parent}" in message
    assert "NORA_DATA" in message


def test_with_nothing_there_all_files_are_named_and_the_cache_is_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NORA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset("pure-p")
    message = str(caught.value)
    assert all(f"PureP/{relation}_list.csv" in message for relation in RELATIONS)
    assert all(f"PureP/{name}.csv" in message for name in ("all_twitter_ids", "dict"))
    assert "additional_labels" not in message, "politicians have no additional labels"
    assert str(tmp_path / "nora" / "TIMME") in message


def test_the_cache_is_read_when_the_given_folder_lacks_a_file(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "nora"
    cache.mkdir(parents=True)
    tiny.parent.rename(cache / "TIMME")
    assert nora.load_dataset("p-20-50").data.num_nodes == 5


def test_a_relation_that_is_cut_short_is_noticed(tiny: Path) -> None:
    write_relation(tiny, "mention", LINKS["mention"][:2])
    with pytest.raises(ValueError, match="2 links, 3 as published: is it com"):
        nora.load_dataset("p-20-50")


def test_users_that_are_missing_are_noticed(tiny: Path) -> None:
    write_relation(tiny, "friend", [(900, 12, 1), (12, 900, 1), (77, 900, 1)])
    with pytest.raises(ValueError, match="p-20-50 has 4 users here, 5 as published"):
        nora.load_dataset("p-20-50")


def test_a_user_who_is_not_listed_is_named(tiny: Path) -> None:
    write_relation(tiny, "reply", [(12, 13, 6), (12, 31337, 1), (31337, 13, 1), (31338, 12, 1)])
    with pytest.raises(ValueError, match=r"names user 3133[78], who.*all_tw"):
        nora.load_dataset("p-20-50")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not readable as a tab-separated table"),
        ("a,b,count\n1,2,3\n", "no column count; it has a,b,count"),
        ("a\tb\tcount\n12\tx\t1\n", r"columns of whole numbers.*b \((object|str)\)"),
        ("a\tb\tcount\n12\t13\t1.5\n", r"columns of whole numbers.*count \(float64\)"),
        ("a\tb\tcount\n12\t\t1\n", r"three columns of whole numbers.*b \(float64\)"),
        ("a\tcount\n12\t1\n", "three columns of whole numbers"),
    ],
)
def test_a_malformed_file_is_named(tiny: Path, content: str, message: str) -> None:
    (tiny / "reply_list.csv").write_text(content)
    with pytest.raises(ValueError, match=rf"reply_list\.csv .*{message}"):
        nora.load_dataset("p-20-50")


def test_a_dict_without_parties_is_named(tiny: Path) -> None:
    write(tiny / "dict.csv", [("name", "twitter_id"), ("Ann Able", 900)])
    with pytest.raises(ValueError, match=r"no column party.*name, twitter_id"):
        nora.load_dataset("p-20-50")


def test_the_partial_one_has_the_relations_that_are_there_and_says_so(tiny: Path) -> None:
    for relation in ("retweet", "favorite", "mention"):
        (tiny / f"{relation}_list.csv").unlink()
    dataset = nora.load_dataset("p-20-50-partial")
    assert dataset.name == "p-20-50-partial"
    assert [kind[1] for kind in dataset.data.edge_types] == ["friend", "reply"]
    assert dataset.data.num_nodes == 5
    write_relation(tiny, "friend", LINKS["friend"][:1])
    with pytest.raises(ValueError, match=r"friend_list\.csv has 1 links, 3.*published"):
        nora.load_dataset("p-20-50-partial")


def test_the_partial_one_gives_way_to_the_whole(tiny: Path) -> None:
    with pytest.raises(ValueError, match=r"all five relations are in .*P_20_50: load 'p-20-50'"):
        nora.load_dataset("p-20-50-partial")


def test_the_partial_one_needs_some_relation(tiny: Path) -> None:
    for relation in RELATIONS:
        (tiny / f"{relation}_list.csv").unlink()
    with pytest.raises(DatasetUnavailableError, match=r"P_20_50/friend_list\.csv, P_20_50/reply"):
        nora.load_dataset("p-20-50-partial")


def test_what_is_published_adds_up() -> None:
    totals = {name: sum(about.links) for name, about in twitter.PUBLISHED.items()}
    assert totals == {"pure-p": 122_347, "p50": 1_593_721, "p-20-50": 1_976_985}


@pytest.mark.data
def test_the_politicians_are_as_published(data_folder: Path) -> None:
    dataset = nora.load_dataset("pure-p")
    data = dataset.data
    assert data.num_nodes == 583
    assert data.num_edges == 122_347
    assert (data["user"].y + 1).bincount().tolist() == [2, 269, 312]
    assert "Sanders, Bernard" in dataset.node_names
    assert int(data["user"].y[dataset.node_names.index("Sanders, Bernard")]) == -1
    for kind in data.edge_types:
        assert data[kind].edge_index.unique(dim=1).size(1) == data[kind].edge_index.size(1)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "folder"), [("p50", "P50"), ("p-20-50", "P_20_50")], ids=["p50", "p-20-50"]
)
def test_what_is_incomplete_is_not_loaded_under_its_name(
    name: str, folder: str, data_folder: Path
) -> None:
    lists = [f"{folder}/{relation}_list.csv" for relation in RELATIONS]
    missing = [file for file in lists if not (data_folder / "TIMME" / file).exists()]
    if not missing:
        assert nora.load_dataset(name).data.num_nodes == twitter.PUBLISHED[name].users
        return
    with pytest.raises(DatasetUnavailableError) as caught:
        nora.load_dataset(name)
    assert f"Missing: {', '.join(missing)}. Get" in str(caught.value)


@pytest.mark.data
def test_the_part_of_p_20_50_that_is_there_has_the_published_users(data_folder: Path) -> None:
    dataset = nora.load_dataset("p-20-50-partial")
    data = dataset.data
    assert [kind[1] for kind in data.edge_types][:2] == ["friend", "reply"]
    assert data.num_nodes == 12_103
    assert (data["user"].y + 1).bincount().tolist() == [11_142, 500, 461]
    # Ids as short as 12 are Twitter's first accounts, not a numbering of the file's own.
    assert dataset.node_names.count("user 12") == 1
