"""`nora.explore`: a model and a graph, live in the browser."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from nora.explorer.network import check_session_arguments, network_of
from nora.explorer.origin import Origin, of_folder
from nora.graph.node_index import Graph, Nodes
from nora.model import Transform
from nora.model.calling import Forward
from nora.model.task import Task
from nora.questions.session import Session
from nora.results.influence import Influence

# Nodes and edges together. A larger graph is prepared while the page is already open.
AT_ONCE = 250_000

if TYPE_CHECKING:
    from nora.explorer.notebook import NotebookExplorer
    from nora.explorer.serving import Explorer


def explore(
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    *,
    scores: Influence | None = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    labels: Tensor | Sequence[int] | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    targets: Nodes | None = None,
    feature_names: Sequence[str] | None = None,
    title: str = "",
    forward: Forward | None = None,
    transform: Transform | None = None,
    port: int = 0,
    browser: bool = True,
    run: str | Origin | None = None,
    notebook: bool | None = False,
) -> Explorer | NotebookExplorer:
    """Open the explorer in the browser: click a node and see whose prediction its removal changes.

    The page is served to this machine only (127.0.0.1), and only with its address; it loads nothing from
    elsewhere. Model and graph must not change while it runs. Above 250,000 nodes and edges, the page opens at
    once and shows the progress of preparing. An error in the model is then shown on the page, and raised by
    `.wait()`.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph. In a `HeteroData`, ids count all nodes, one type after the other.
        task: What is predicted; node classification from logits by default.
        scores: Known influences. Default: the explorer computes them in the background.
        names: Node names.
        class_names: Class names.
        labels: Known classes `[num_nodes]`, −1 where unknown; `data.y` by default.
        groups: Further attributes to filter nodes by, `{"city": values}` with one value per node. Node types
            and the masks of `data` (`train_mask`) are always available.
        targets: Count only the change of these predictions, as in `nora.influence`.
        feature_names: The names of the features, the first columns of `data.x`.
        title: Title of the page.
        forward: As in `nora.influence`.
        transform: As in `nora.influence`.
        port: Port of the server. Default: any free port.
        browser: Open the browser.
        run: The folder of the trained run, for the Python programs that the page exports.
        notebook: Show the page in a notebook cell, without a server (extra `[notebook]`); `port` and
            `browser` are then ignored. Default (None): if this is a notebook and the extra is installed.

    Returns:
        The running explorer: `.url` is an address that works once, `.wait()` blocks until Ctrl-C, `.close()`
        stops it. In a notebook, it keeps running while you work.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> with nora.explore(run.model, run.data, browser=False) as explorer:
        ...     explorer.running
        True
    """
    try:
        from nora.explorer.app import Explorations

        if notebook is None:
            notebook = find_spec("anywidget") is not None and "IPython" in sys.modules
            if notebook:
                from nora.explorer.notebook import in_notebook

                notebook = in_notebook()
        if notebook:
            from nora.explorer.notebook import NotebookExplorer
        else:
            from nora.explorer.serving import Explorer
    except ModuleNotFoundError as error:
        extra = {"starlette": "explore", "uvicorn": "explore", "anywidget": "notebook"}
        if error.name not in extra:
            raise
        raise ModuleNotFoundError(
            f"the explorer needs {error.name}: pip install 'nora-influence[{extra[error.name]}]'"
        ) from None

    # The page asks from a thread of its own, while the caller may go on with the model.
    model = copy.deepcopy(model)
    session = Session(
        model,
        data,
        task,
        forward=forward,
        transform=transform,
        targets=targets,
        names=names,
        once=True,
    )
    given = check_session_arguments(
        session,
        names,
        class_names,
        labels,
        title,
        of_folder(run) if isinstance(run, str) else run,
        groups,
        feature_names,
    )
    wait = session.num_nodes + session.data.num_edges <= AT_ONCE
    explorations = Explorations(lambda: network_of(session, given), scores, wait)
    if notebook:
        return NotebookExplorer(explorations)
    explorer = Explorer(explorations, port)
    if browser:
        explorer.open()
    return explorer
