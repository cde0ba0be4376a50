"""`nora.explore`: a model and a graph, live in the browser."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Unpack

from torch import Tensor, nn

from nora.explorer.network import check_session_arguments, network_of
from nora.explorer.origin import Origin, of_folder
from nora.graph.node_index import Graph
from nora.model.task import Task
from nora.questions.session import Session
from nora.questions.session_options import CountingOptions, takes_session_options
from nora.results.influence import Influence

# Nodes and edges together. A larger graph is prepared while the page is already open.
AT_ONCE = 250_000

if TYPE_CHECKING:
    from nora.explorer.notebook import NotebookExplorer
    from nora.explorer.serving import Explorer


@takes_session_options(CountingOptions)
def explore(  # noqa: PLR0913
    model: nn.Module,
    data: Graph,
    task: Task | None = None,
    *,
    scores: Influence | None = None,
    labels: Tensor | Sequence[int] | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str = "",
    port: int = 0,
    browser: bool = True,
    run: str | Origin | None = None,
    notebook: bool | None = False,
    **about: Unpack[CountingOptions],
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
        labels: Known classes `[num_nodes]`, −1 where unknown; `data.y` by default.
        groups: Further attributes to filter nodes by, `{"city": values}` with one value per node. Node types
            and the masks of `data` (`train_mask`) are always available.
        feature_names: The names of the features, the first columns of `data.x`.
        title: Title of the page.
        port: Port of the server. Default: any free port.
        browser: Open the browser.
        run: The folder of the trained run, for the Python programs that the page exports.
        notebook: Show the page in a notebook cell, without a server (extra `[notebook]`); `port` and
            `browser` are then ignored. None: if this is a notebook and the extra is installed.
        **about: Arguments of `nora.Session`.

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
    with _named_extras():
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
    class_names = about.pop("class_names", None)
    # The page asks from a thread of its own, while the caller may go on with the model.
    session = Session(copy.deepcopy(model), data, task, **about, once=True)
    given = check_session_arguments(
        session,
        class_names=class_names,
        labels=labels,
        title=title,
        origin=of_folder(run) if isinstance(run, str) else run,
        groups=groups,
        feature_names=feature_names,
    )
    wait = session.num_nodes + session.data.num_edges <= AT_ONCE
    explorations = Explorations(lambda: network_of(session, given), scores, wait)
    if notebook:
        return NotebookExplorer(explorations)
    explorer = Explorer(explorations, port)
    if browser:
        explorer.open()
    return explorer


@contextmanager
def _named_extras() -> Iterator[None]:
    """Name the extra that brings a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = {"starlette": "explore", "uvicorn": "explore", "anywidget": "notebook"}
        if error.name not in extra:
            raise
        raise ModuleNotFoundError(
            f"the explorer needs {error.name}: pip install 'nora-influence[{extra[error.name]}]'"
        ) from None
