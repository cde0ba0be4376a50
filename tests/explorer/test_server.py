"""The server's answers are those of `nora.what_if`, for any client, order and number."""

from __future__ import annotations

import copy
import json
import random
import threading
import time

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import nora
from elsewhere import printed
from loopback import Client
from nora.explorer.network import network_of
from nora.explorer.worker import NOW
from papers import AUTHORS, typed_papers


def remove(*nodes: int) -> list[dict]:
    return [{"kind": "remove", "node": node} for node in nodes]


def test_the_effect_of_nodes_is_that_of_what_if(client, run):
    for nodes in ([0], [33], [0, 33], [5, 6, 7, 8]):
        reply = client.ask("/api/effect", {"edits": remove(*nodes)})
        true = nora.what_if(run.model, run.data, nodes)
        assert reply["total"] == pytest.approx(true.total, rel=1e-6)
        flips = true.flips()
        assert reply["flips"] == len(flips)
        assert sorted(reply["node"][: len(flips)]) == sorted(flips["node"])
        for at, node in enumerate(reply["node"][: len(flips)]):
            row = flips[flips["node"] == node].iloc[0]
            assert (reply["from"][at], reply["to"][at]) == (row["from_class"], row["to_class"])
        assert reply["change"] == pytest.approx(true.change[reply["node"]].tolist(), abs=1e-5)


def test_edges_that_go_and_come_and_features_count(client, run):
    row = run.data.x[3].clone()
    row[2] = 1.0
    edits = [
        {"kind": "remove_edge", "edge": [2, 0]},
        {"kind": "add_edge", "edge": [16, 33]},
        {"kind": "set", "node": 3, "feature": 2, "value": 1.0},
        *remove(9),
    ]
    true = nora.what_if(
        run.model,
        run.data,
        [9],
        remove_edges=[(0, 2)],
        add_edges=[(16, 33)],
        features={3: row},
    )
    reply = client.ask("/api/effect", {"edits": edits})
    assert reply["total"] == pytest.approx(true.total, rel=1e-5)
    assert reply["flips"] == len(true.flips())


def test_the_order_of_edits_does_not_matter_and_is_kept_once(client, explorer):
    first = client.ask("/api/effect", {"edits": remove(11, 12)})
    before = len(explorer._explorations.answers.recent)
    assert client.ask("/api/effect", {"edits": remove(12, 11, 12)}) == first
    assert len(explorer._explorations.answers.recent) == before


def test_no_edits_change_nothing(client):
    reply = client.ask("/api/effect", {"edits": []})
    assert reply["total"] == 0 and reply["node"] == []


def test_each_edit_by_itself_comes_in_the_order_of_the_list(client, run):
    reply = client.ask(
        "/api/singles", {"edits": [*remove(33), {"kind": "remove_edge", "edge": [0, 1]}]}
    )
    assert reply[0]["total"] == pytest.approx(nora.what_if(run.model, run.data, 33).total, rel=1e-6)
    cut = nora.what_if(run.model, run.data, remove_edges=[(0, 1)])
    assert reply[1]["total"] == pytest.approx(cut.total, rel=1e-5)


def test_an_edit_that_contradicts_the_graph_is_explained(client):
    status, reply = client.refused(
        "/api/effect", {"edits": [{"kind": "remove_edge", "edge": [0, 9]}]}
    )
    assert status == 422 and "not in the graph" in reply


def test_a_later_question_of_the_same_page_wins(client, explorer):
    answers, hold = explorer._explorations.answers, threading.Event()
    explorer._explorations.worker.submit(NOW, hold.wait)
    found: dict[int, int] = {}

    def ask(number: int) -> None:
        # Edits that no other test asks about: an answer that is kept would not wait.
        body = {"edits": remove(number, 7, 9, 11), "page": "one", "number": number}
        found[number] = client.send("POST", "/api/effect", body)[0]

    threads = {number: threading.Thread(target=ask, args=(number,)) for number in (20, 21, 22)}
    try:
        for number, thread in threads.items():
            thread.start()
            deadline = time.monotonic() + 10
            while (answers._latest.get("one") or 0) < number and time.monotonic() < deadline:
                time.sleep(0.01)
    finally:
        hold.set()  # else every later test would wait
    for thread in threads.values():
        thread.join()
    assert found == {20: 409, 21: 409, 22: 200}


def test_search_finds_names_and_numbers(client, run):
    assert client.ask("/api/search?text=member%2034")["node"] == [33]
    assert client.ask("/api/search?text=MEMBER%203&most=3")["node"][0] == 2
    assert client.ask("/api/search?text=alert")["node"] == [1]
    assert client.ask("/api/search?text=missing")["node"] == []


def test_neighbours_come_with_the_ties_among_them(client, run):
    reply = client.ask("/api/neighbours", {"nodes": [16], "others": [0]})
    assert sorted(reply["neighbours"][0]) == [5, 6] and reply["more"] == [0]
    pairs = {tuple(reply["edge"][at : at + 2]) for at in range(0, len(reply["edge"]), 2)}
    assert pairs == {(5, 16), (6, 16), (5, 6), (0, 5), (0, 6)}
    few = client.ask("/api/neighbours", {"nodes": [33], "most": 3})
    assert len(few["neighbours"][0]) == 3 and few["more"] == [14]


def test_why_is_that_of_influencers(client, run):
    true = nora.influencers(run.model, run.data, 8, 12, progress=False)
    reply = client.ask("/api/why?node=8")
    assert reply["node"] == true["node"].tolist()
    assert reply["influence"] == pytest.approx(true["influence"].tolist(), rel=1e-4)


def test_what_would_flip_a_node_does_flip_it(client, run):
    found = 0
    for node in (2, 8, 19, 33):
        reply = client.ask(f"/api/flip?node={node}")
        if reply["edits"]:
            found += 1
            flips = nora.what_if(
                run.model, run.data, [one["node"] for one in reply["edits"]]
            ).flips()
            assert node in set(flips["node"])
        else:
            assert "up to 3 nodes" in reply["text"]
    assert found


def stream(client, until=lambda part: part["status"] == "done"):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", "/api/ranking", headers={"Cookie": client.cookie})
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/event-stream")
    try:
        while True:
            line = answer.readline().decode()
            if line.startswith("data: "):
                part = json.loads(line[6:])
                yield part
                if until(part):
                    return
    finally:
        connection.close()


def test_influences_stream_in_until_all_are_there(client, run):
    true = nora.influence(run.model, run.data, "brute", progress=False).scores
    found = np.full(34, np.nan)
    for part in stream(client):
        found[part["id"]] = part["influence"]
    assert found == pytest.approx(true.numpy(), abs=1e-4)


def test_the_ranking_stops_and_goes_on(run):
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(9000, 8, generator=generator),
        edge_index=torch.randint(0, 9000, (2, 27000), generator=generator),
    )
    model = nora.build_model("gcn", 8, 3, hidden_channels=8)
    with nora.explore(model, data, browser=False) as explorer:
        client, ranking = Client(explorer), explorer._explorations.ranking
        next(stream(client, lambda part: part["done"] > 0))
        assert client.ask("/api/ranking", {"act": "pause"})["status"] == "paused"
        time.sleep(0.3)
        done = ranking.done
        time.sleep(0.3)
        assert ranking.done == done < 9000
        assert client.ask("/api/ranking", {"act": "start"})["status"] == "running"
        assert client.refused("/api/ranking", {"act": "burn"})[0] == 422
        deadline = time.monotonic() + 60
        while ranking.done == done and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ranking.done > done


def test_a_slow_ranking_waits_until_no_request_runs(run, monkeypatch):
    with nora.explore(run.model, run.data, browser=False) as explorer:
        ranking, worker = explorer._explorations.ranking, explorer._explorations.worker
        worker.submit(NOW, lambda: None).result()
        ranking._took = 1.0
        ranking.start()
        time.sleep(0.5)
        assert ranking.done == 0 and ranking.status == "running"
        monkeypatch.setattr("nora.explorer.background_ranking.COURTESY_SECONDS", 0.0)
        finished(ranking)


def test_a_directed_edge_is_removed_in_the_directions_it_has():
    edges = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 3, 0]])
    data = Data(x=torch.eye(4), edge_index=edges)
    model = nora.build_model("sage", 4, 2, hidden_channels=4)
    with nora.explore(model, data, browser=False) as explorer:
        client = Client(explorer)
        for given, gone in (([0, 1], [(0, 1), (1, 0)]), ([2, 1], [(1, 2)])):
            reply = client.ask("/api/effect", {"edits": [{"kind": "remove_edge", "edge": given}]})
            true = nora.what_if(model, data, remove_edges=gone)
            assert reply["total"] == pytest.approx(true.total, rel=1e-5)


def test_links_are_explored_too():
    run = nora.train("gcn", "karate", "link", epochs=5, progress=False)
    with nora.explore(run.model, run.data, run.task, browser=False) as explorer:
        client = Client(explorer)
        reply = client.ask("/api/effect", {"edits": remove(0)})
        true = nora.what_if(run.model, run.data, 0, run.task)
        assert reply["total"] == pytest.approx(true.total, rel=1e-5)
        assert reply["flips"] == len(true.flips())


def test_the_changes_as_csv_are_all_of_them(client, run, tmp_path):
    body = {"kind": "csv", "edits": remove(0), "text": ""}
    status, headers, text = client.send("POST", "/api/export", body)
    assert status == 200 and "changes.csv" in headers["content-disposition"]
    (tmp_path / "changes.csv").write_bytes(text)
    frame = pd.read_csv(tmp_path / "changes.csv")
    true = nora.what_if(run.model, run.data, 0)
    assert len(frame) == int((true.change > 0).sum())
    assert frame["change"].sum() == pytest.approx(true.total, rel=1e-5)
    assert frame["flipped"].sum() == len(true.flips())


def test_the_program_prints_the_same_total(run, tmp_path):
    folder = run.save(tmp_path / "run")
    names = run.dataset.node_names
    edits = [*remove(0), {"kind": "remove_edge", "edge": [32, 33]}]
    edits += [{"kind": "set", "node": 5, "feature": 1, "value": 0.5}]
    with nora.explore(run.model, run.data, names=names, browser=False, run=str(folder)) as explorer:
        client = Client(explorer)
        total = client.ask("/api/effect", {"edits": edits})["total"]
        _, _, text = client.send("POST", "/api/export", {"kind": "python", "edits": edits})
    assert str(folder) not in text.decode()
    for node in (0, 32, 33, 5):
        assert repr(names[node]) in text.decode()
    (folder / "again.py").write_bytes(text)
    # In the folder of the run as it is; from elsewhere with that folder.
    for where, more in ((folder, []), (tmp_path, [folder])):
        caught = printed(folder / "again.py", *more, cwd=where)
        assert float(caught.splitlines()[0]) == pytest.approx(total, rel=1e-5)


def test_the_program_of_the_demo_runs_as_it_is(run, tmp_path):
    from nora.explorer.origin import DEMO

    trained = nora.train("gcn", "polarised", progress=False)
    about = {"names": trained.dataset.node_names, "run": DEMO}
    with nora.explore(trained.model, trained.data, browser=False, **about) as explorer:
        client = Client(explorer)
        total = client.ask("/api/effect", {"edits": remove(32)})["total"]
        body = {"kind": "python", "edits": remove(32)}
        _, _, text = client.send("POST", "/api/export", body)
    assert repr(trained.dataset.node_names[32]) in text.decode()
    (tmp_path / "what_if.py").write_bytes(text)
    caught = printed(tmp_path / "what_if.py")
    assert float(caught.splitlines()[0]) == pytest.approx(total, rel=1e-4)


def test_the_program_of_a_model_in_no_file_runs_and_is_a_function_of_the_model(
    run, client, tmp_path
):
    body = {"kind": "python", "edits": remove(1)}
    _, _, text = client.send("POST", "/api/export", body)
    (tmp_path / "what_if.py").write_bytes(text)
    assert "from what_if import ask" in printed(tmp_path / "what_if.py")
    space: dict = {"__name__": "what_if"}
    exec(compile(text, "what_if.py", "exec"), space)
    true = nora.what_if(run.model, run.data, 1).total
    assert space["ask"](run.model, run.data).total == pytest.approx(true, rel=1e-6)


def test_the_report_is_of_the_graph_after_the_edits(client):
    body = {"kind": "report", "edits": remove(0, 1), "text": "Two are gone."}
    status, _, text = client.send("POST", "/api/export", body)
    page = text.decode()
    assert status == 200 and "Two are gone." in page and "the class of 32 nodes" in page


def test_a_thousand_edits_in_a_row_by_eight_clients_are_all_right_and_leave_nothing_behind(
    client, explorer, run
):
    true = {node: nora.what_if(run.model, run.data, node).total for node in range(34)}
    pairs = {}
    wrong: list[object] = []
    explorer._server.config.app.allowance.rate = 1e6

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(125):
            nodes = chance.sample(range(34), chance.choice((1, 1, 2)))
            reply = client.ask("/api/effect", {"edits": remove(*nodes), "page": f"page {seed}"})
            if len(nodes) == 1 and reply["total"] != pytest.approx(true[nodes[0]], rel=1e-5):
                wrong.append((nodes, reply["total"]))
            if len(nodes) == 2:
                pairs[tuple(sorted(nodes))] = reply["total"]

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for nodes in random.Random(0).sample(sorted(pairs), 20):
        assert pairs[nodes] == pytest.approx(
            nora.what_if(run.model, run.data, nodes).total, rel=1e-5
        )
    answers = explorer._explorations.answers
    assert not wrong
    assert (
        len(answers.recent) <= answers.recent.most and len(answers._latest) <= answers._latest.most
    )
    assert explorer._explorations.worker._queue.qsize() <= 1


def test_what_the_explorer_cannot_tell_is_refused_before_anything_starts():
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1], [1, 0]]))
    model = nora.build_model("gcn", 4, 1, hidden_channels=4)
    with pytest.raises(ValueError, match="predicts numbers"):
        nora.explore(model, data, nora.NodeRegression(), browser=False)
    model = nora.build_model("gcn", 4, 2, hidden_channels=4)
    with pytest.raises(ValueError, match=r"names.*4; got 3"):
        nora.explore(model, data, names=["a", "b", "c"], browser=False)
    with nora.explore(model, data, browser=False) as explorer:
        with pytest.raises(OSError, match="choose another port"):
            nora.explore(model, data, port=explorer.port, browser=False)
        with pytest.raises(ValueError, match="port"):
            nora.explore(model, data, port=70_000, browser=False)


def finished(ranking) -> None:
    ranking.start()
    deadline = time.monotonic() + 60
    while ranking.status == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ranking.status == "done", ranking.problem


def test_nodes_and_edges_of_types_are_explored_as_what_if_tells(tmp_path):
    model, data, task = typed_papers()
    session = nora.Session(model, data, task)
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    author, paper = data[writes].edge_index[:, 0].tolist()
    with nora.explore(model, data, task, browser=False) as explorer:
        client = Client(explorer)
        value = client.ask("/api/network")
        assert value["num_items"] == 24 and value["node"]["predicted"][:AUTHORS] == [-1] * AUTHORS
        assert [one["name"] for one in value["edge_kinds"]] == ["writes", "cites"]
        row = data["paper"].x[2].clone()
        row[5] = 2.0
        cut = {"kind": "remove_edge", "edge": [author, AUTHORS + paper]}
        given = [
            (remove(3), {"remove": [("author", 3)]}),
            (remove(AUTHORS + 4), {"remove": [("paper", 4)]}),
            ([cut], {"remove_edges": {writes: [(author, paper)]}}),
            (
                [{"kind": "set", "node": AUTHORS + 2, "feature": 5, "value": 2.0}],
                {"features": {("paper", 2): row}},
            ),
            (
                [
                    *remove(3),
                    cut,
                    {"kind": "add_edge", "edge": [AUTHORS + 9, AUTHORS + 9 - 2], "type": 1},
                ],
                {
                    "remove": [("author", 3)],
                    "remove_edges": {writes: [(author, paper)]},
                    "add_edges": {cites: [(9, 7)]},
                },
            ),
        ]
        for edits, asked in given:
            reply = client.ask("/api/effect", {"edits": edits})
            true = session.what_if(nora.Edits(**asked), method="brute")
            assert reply["total"] == pytest.approx(true.total, rel=1e-4)
            assert reply["flips"] == len(true.flips())
        refused = client.refused("/api/effect", {"edits": [{"kind": "add_edge", "edge": [0, 1]}]})
        assert refused == (422, "no type of edge joins author and author")
        why = client.ask(f"/api/why?node={AUTHORS + 2}")
        true = session.influencers(("paper", 2), 12, progress=False)
        ids = [
            at + AUTHORS * (kind == "paper")
            for kind, at in zip(true["type"], true["node"], strict=True)
        ]
        assert why["node"] == ids
        rankings = explorer._explorations.rankings
        finished(rankings.get("edges", "change"))
        rows = client.ask("/api/rows", {"of": "edges", "most": 3})
        for edge, influence in zip(rows["edge"], rows["influence"], strict=True):
            reply = client.ask("/api/effect", {"edits": [{"kind": "remove_edge", "edge": edge}]})
            assert influence == pytest.approx(reply["total"], rel=1e-4)
        _, _, text = client.send("POST", "/api/export", {"kind": "python", "edits": given[-1][0]})
        space: dict = {"__name__": "what_if"}
        exec(compile(text.decode(), "what_if.py", "exec"), space)
        last = client.ask("/api/effect", {"edits": given[-1][0]})["total"]
        assert space["ask"](model, data, task).total == pytest.approx(last, rel=1e-4)
        assert "node types" in client.refused("/api/export", {"kind": "report", "edits": []})[1]


def test_rankings_that_are_not_looked_at_any_more_are_dropped(run):
    with nora.explore(run.model, run.data, browser=False) as explorer:
        rankings = explorer._explorations.rankings
        for measure in rankings.network.measures:
            for of in ("nodes", "edges"):
                rankings.get(of, measure)
        assert len(rankings.network.measures) == 8 and len(rankings._others) == 6
        listening = rankings.get("edges", "change").listen(lambda: None)
        for measure in rankings.network.measures:
            rankings.get("nodes", measure)
        assert ("edges", "change") in rankings._others
        listening()


def test_rows_are_filtered_and_refused_where_they_make_no_sense(client, explorer, run):
    finished(explorer._explorations.rankings.get("edges", "flips"))
    asked = {"of": "edges", "measure": "flips", "group": [[0, 1]], "most": 200}
    rows = client.ask("/api/rows", asked)
    assert rows["count"] == sum(max(a, b) >= 17 for a, b in run.data.edge_index.t().tolist()) // 2
    for wrong in (
        {"of": "burn"},
        {"of": ["edges"]},
        {"of": "nodes"},
        {"of": "edges", "measure": "class:99"},
        {"of": "edges", "measure": "__class__"},
        {"of": "edges", "start": -1},
        {"of": "edges", "most": True},
        {"of": "edges", "text": 7},
        {"of": "edges", "group": [[9, 0]]},
        {"of": "edges", "group": [[0, "x"]]},
        {"of": "edges", "more": 1},
    ):
        assert client.refused("/api/rows", wrong)[0] == 422, wrong


def test_what_a_large_graph_shows_in_front_comes_with_the_effect(client):
    reply = client.ask("/api/effect", {"edits": remove(33), "centres": [16]})
    around = reply["neighbourhood"]
    assert around["nodes"] == [33, 16] and sorted(around["neighbours"][1]) == [5, 6]
    assert set(around["others"]) <= set(reply["node"])
    assert client.refused("/api/effect", {"edits": [], "centres": "x"})[0] == 422
    assert client.refused("/api/effect", {"edits": [], "centres": [34]})[0] == 422


def test_a_closed_explorer_is_gone(run):
    explorer = nora.explore(run.model, run.data, browser=False)
    client = Client(explorer)
    assert "running" in repr(explorer)
    explorer.close()
    assert not explorer.running and "closed" in repr(explorer)
    with pytest.raises(OSError):
        client.send("GET", "/")


def test_the_model_is_left_as_found(run):
    run.model.train()
    try:
        with nora.explore(run.model, run.data, browser=False) as explorer:
            Client(explorer).ask("/api/effect", {"edits": remove(3)})
        assert run.model.training
    finally:
        run.model.eval()


def test_the_browser_is_opened_by_a_file_that_only_its_owner_can_read(explorer, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert explorer.open()
    from pathlib import Path
    from urllib.parse import urlparse

    path = Path(urlparse(opened[0]).path)
    assert opened[0].startswith("file:") and "token" not in opened[0]
    assert path.stat().st_mode & 0o077 == 0 and "/enter?token=" in path.read_text()
    explorer._forget()
    assert not path.exists()


def test_a_title_cannot_turn_the_text_round(run):
    with nora.explore(run.model, run.data, title="report \u202egpj", browser=False) as started:
        assert started._explorations.network.title == "report \\u202egpj"


def test_features_have_their_names(run, tmp_path):
    names = [f"word {k}" for k in range(5)]
    shown = {"feature_names": names, "browser": False, "run": str(tmp_path)}
    with nora.explore(run.model, run.data, **shown) as explorer:
        client = Client(explorer)
        assert client.ask("/api/network")["feature_names"] == names
        edits = [{"kind": "set", "node": 3, "feature": 2, "value": 1.0}]
        _, _, text = client.send("POST", "/api/export", {"kind": "python", "edits": edits})
        assert "[2] = 1.0  # 'word 2'" in text.decode()
    with pytest.raises(ValueError, match=r"feature_names.*34; got 99"):
        nora.explore(run.model, run.data, feature_names=["a"] * 99, browser=False)


def test_only_targets_count_on_the_page_and_in_its_program(run, tmp_path):
    run.save(tmp_path / "run")
    targets = [4, 5, 6]
    shown = {"targets": targets, "browser": False, "run": str(tmp_path / "run")}
    with nora.explore(run.model, run.data, **shown) as explorer:
        client = Client(explorer)
        true = nora.what_if(run.model, run.data, [0], targets=targets).total
        assert client.ask("/api/effect", {"edits": remove(0)})["total"] == pytest.approx(true)
        _, _, text = client.send("POST", "/api/export", {"kind": "python", "edits": remove(0)})
        _, _, page = client.send("POST", "/api/export", {"kind": "report", "edits": []})
    assert "Only 3 predictions count." in page.decode()
    (tmp_path / "what_if.py").write_bytes(text)
    caught = printed(tmp_path / "what_if.py", tmp_path / "run")
    assert float(caught.split()[0]) == pytest.approx(true, rel=1e-5)


def test_closing_while_a_report_is_written_prints_no_traceback(run, monkeypatch, capfd):
    begun, hold = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        hold.wait(30)
        return b""

    monkeypatch.setattr("nora.explorer.app.as_report", slow)
    with nora.explore(run.model, run.data, browser=False) as explorer:
        client = Client(explorer)
        body = {"kind": "report", "edits": [], "text": ""}
        asking = threading.Thread(target=client.refused, args=("/api/export", body))
        asking.start()
        assert begun.wait(30)
    hold.set()
    asking.join(30)
    assert "Traceback" not in capfd.readouterr().err


def test_a_large_graph_is_prepared_while_the_page_is_open(run, monkeypatch):
    monkeypatch.setattr("nora.explorer.explore.AT_ONCE", 0)
    hold = threading.Event()

    def slow(*given):
        assert hold.wait(60)
        return network_of(*given)

    monkeypatch.setattr("nora.explorer.explore.network_of", slow)
    with nora.explore(run.model, run.data, browser=False) as explorer:
        client = Client(explorer)
        status, _, text = client.send("GET", "/api/network")
        assert status == 202 and "seconds" in json.loads(text)
        assert client.refused("/api/effect", {"edits": remove(33)})[0] == 503
        hold.set()
        explorer._explorations.prepared.result(60)
        assert client.ask("/api/network")["num_nodes"] == 34
        true = nora.what_if(run.model, run.data, 33).total
        assert client.ask("/api/effect", {"edits": remove(33)})["total"] == pytest.approx(true)


def test_what_is_wrong_with_the_model_of_a_large_graph_is_shown_and_raised(run, monkeypatch):
    monkeypatch.setattr("nora.explorer.explore.AT_ONCE", 0)
    data = copy.copy(run.data)
    data.x = data.x[:, :5]
    with nora.explore(run.model, data, browser=False) as explorer:
        with pytest.raises(ValueError, match="could not be run"):
            explorer.wait()
        assert not explorer.running
