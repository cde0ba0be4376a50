from __future__ import annotations

import nora


def test_the_club_has_its_34_members_and_78_ties() -> None:
    dataset = nora.load_dataset("karate")
    assert dataset.data.num_nodes == len(dataset.node_names) == 34
    assert dataset.data.num_edges == 2 * 78
    assert dataset.node_names[0] == "member 1"
    assert sorted(dataset.data.y.unique().tolist()) == [0, 1, 2, 3]
    assert sorted(dataset.data.keys()) == ["edge_index", "x", "y"]
