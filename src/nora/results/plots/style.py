"""The style of all figures. They are drawn without pyplot: without global state or a window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from nora.files import written_atomically
from nora.results.agreement import log_trend

# Amber and teal, then the rest of Okabe and Ito's colours: neighbours differ in lightness too, so
# that they stay apart for colour-blind readers and in print.
COLOURS = ("#E69F00", "#00707F", "#CC79A7", "#0072B2", "#D55E00", "#56B4E9", "#009E73", "#000000")
GREY = "#8A8A8A"


def save_figure(figure: Figure, path: str | Path, replace: bool = True) -> Path:
    """Write the figure as an image, complete or not at all."""
    path = Path(path)
    with written_atomically(path, replace) as temporary:
        figure.savefig(temporary, dpi=150)
    return path


def notable(nodes: pd.DataFrame) -> pd.Index:
    """Nodes worth naming: the first three, and those that degree explains worst, up and down.

    Args:
        nodes: Columns `degree` and `influence`, both positive.
    """
    # Without a trend all nodes are compared with the same level, whichever.
    slope, level = log_trend(nodes["influence"].to_numpy(), nodes["degree"].to_numpy()) or (
        0.0,
        0.0,
    )
    surprise = np.log(nodes["influence"]) - (level + slope * np.log(nodes["degree"]))
    # Among small nodes large ratios are common and mean little.
    important = nodes["influence"] >= nodes["influence"].quantile(0.95)
    hubs = nodes["degree"] >= nodes["degree"].quantile(0.95)
    first = nodes["influence"].nlargest(3).index
    above = surprise[important].nlargest(3).index
    below = surprise[hubs].nsmallest(2).index
    return first.append([above, below]).drop_duplicates()
