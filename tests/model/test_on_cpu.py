"""A model on another device is asked on the CPU, on a device that is not there."""

from __future__ import annotations

from elsewhere import printed

SETUP = """
import warnings
import torch
from torch_geometric.nn import GAT, GCN, GraphSAGE
from pretend_device import DEVICE, PretendDevice, moved_there, register
import nora

register()

data = nora.load_dataset("karate").data

def network(kind=GCN):
    torch.manual_seed(0)
    return kind(data.num_features, 8, 2, 4, norm="batch_norm").eval()

def asked(question, *given, **more):
    "What a question answers here and there, and the warning; nothing is computed there."
    here = question(*given, **more)
    with PretendDevice() as device, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        there = question(*map(moved_there, given[:2]), *given[2:], **more)
    said = [str(one.message) for one in caught if "computes on the CPU" in str(one.message)]
    computed = {"aten::mm", "aten::addmm", "aten::index_select", "aten::scatter_add_"} & device.done
    assert not computed, computed
    return here, there, said
"""

SCORES = """
for kind in (GCN, GraphSAGE, GAT):
    for method in ("exact", "brute", "nora", "auto"):
        here, there, said = asked(nora.influence, network(kind), data, method, progress=False)
        assert torch.equal(here.scores, there.scores) and there.scores.device.type == "cpu"
        assert here.details.get("followed") == there.details.get("followed")
        assert said == ["the model and the graph are on pretend:0: NORA computes on the CPU, with a copy"]
print("equal")
"""

QUESTIONS = """
here, there, said = asked(nora.what_if, network(), data, remove=3)
torch.testing.assert_close(here.after, there.after, rtol=0, atol=0, equal_nan=True)
assert len(said) == 1
here, there, said = asked(nora.top, network(), data, 5, progress=False)
assert here.nodes == there.nodes and here.certified == there.certified
with PretendDevice():
    model, graph = moved_there(network()), moved_there(data)
    nodes = moved_there(torch.tensor([1, 5, 7]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = nora.influence(model, graph, "exact", nodes=nodes, targets=nodes, progress=False)
        live = nora.Live(model, graph)
        live.apply(nora.Edits(remove_edges=[(0, 1)]))
        pairs = nora.LinkPrediction(moved_there(torch.tensor([[0, 1, 2], [3, 4, 5]])))
        links = nora.influence(model, graph, "exact", pairs, progress=False)
        session = nora.Session(model, graph)
        session.what_if(3)
    assert str(next(model.parameters()).device) == str(graph.x.device) == DEVICE
    with torch.no_grad():
        for weight in model.parameters():  # the caller's own, not the copies
            weight.mul_(2)
    try:
        session.what_if(3)
    except RuntimeError as error:
        assert "the model has changed" in str(error)
        print("noticed")
mine = torch.tensor([1, 5, 7])
truth = nora.influence(network(), data, "brute", nodes=mine, targets=mine, progress=False)
torch.testing.assert_close(scores.scores, truth.scores, equal_nan=True)
truth = nora.LinkPrediction(torch.tensor([[0, 1, 2], [3, 4, 5]]))
truth = nora.influence(network(), data, "brute", truth, progress=False)
torch.testing.assert_close(links.scores, truth.scores, equal_nan=True)
after = nora.what_if(network(), data, remove_edges=[(0, 1)]).after
torch.testing.assert_close(live.predictions, after, rtol=1e-4, atol=1e-6)
"""

MIXED = """
with PretendDevice():
    model = moved_there(network())
    try:
        model(moved_there(data.x), data.edge_index)
    except RuntimeError as error:
        assert "same device" in str(error)
    try:
        moved_there(data.x).numpy()
    except TypeError:
        print("as on a GPU")
"""


def test_scores_are_those_of_the_model_on_the_cpu() -> None:
    assert printed(SETUP + SCORES).split()[-1] == "equal"


def test_questions_take_tensors_of_the_device_and_notice_changes_of_the_callers_model() -> None:
    code = SETUP + QUESTIONS
    assert printed(code).split()[-1] == "noticed"


def test_the_pretend_device_fails_where_a_gpu_does() -> None:
    code = SETUP + MIXED
    assert printed(code).strip().endswith("as on a GPU")
