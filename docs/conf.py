"""The documentation site: `make docs` builds it into site/, to be read from there without a server.

The source folder is the repository itself, so that a link between two of its files (`../results/case.md`)
is the same on the site and wherever else the files are read.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "hooks"), str(HERE.parent / "src")]

import nora  # noqa: E402

# A new page is one line here: its path from this folder, after another title if it should have one.
NAVIGATION = {
    "Start": [
        "start.md",
        "own-data.md",
        "own-model.md",
        "explorer.md",
        "outputs.md",
        "gallery.md",
    ],
    "Choose a method": [
        "which-method.md",
        "How well does each do? <methods.md>",
        "trust.md",
    ],
    "Ask more": [
        "what-if.md",
        "flips.md",
        "links.md",
        "relational.md",
        "projects.md",
        "coming-from.md",
    ],
    "Large graphs": [
        "large-graphs.md",
        "Engines on disk, clusters <prepared.md>",
        "hundred-million-nodes.md",
    ],
    "Look up": [
        "command-line.md",
        "api.md",
        "api-questions.md",
        "api-tasks.md",
        "api-results.md",
        "api-data.md",
        "api-extend.md",
        "troubleshooting.md",
        "glossary.md",
        "tested-versions.md",
    ],
    "The paper": [
        "paper.md",
        "politicians.md",
        "benchmark.md",
    ],
    "How it works": [
        "exact.md",
        "coverage.md",
        "mathematics.md",
        "architecture.md",
        "../CONTRIBUTING.md",
        "../CHANGELOG.md",
    ],
    "Notebooks": [
        "notebooks/own-model.ipynb",
        "notebooks/edge-list-to-report.ipynb",
        "notebooks/node-types.ipynb",
    ],
    "Measured": [
        "How each result was made <../results/README.md>",
        "Every cell beside the paper <../results/cells.md>",
        "Agreement, all cells <../results/citation.md>",
        "Paper's sizes: agreement <../results/paper/citation.md>",
        "Published protocol: agreement <../results/published/citation.md>",
        "Paper's sizes: sketch <../results/paper/sketch.md>",
        "Paper's sizes: tuning <../results/paper/tuning.md>",
        "Paper's sizes: length of training <../results/paper/length.md>",
        "Paper's sizes: skew <../results/paper/skew.md>",
        "Paper's sizes: the truth, a benchmark <../results/paper/truth.md>",
        "Sketch beside NORA <../results/sketch.md>",
        "Parts of NORA <../results/ablation.md>",
        "Share of labels <../results/labels.md>",
        "Running time <../results/time.md>",
        "Stability <../results/stability.md>",
        "Length of training <../results/length.md>",
        "Skew <../results/skew.md>",
        "Top ten <../results/case.md>",
        "Politicians, top ten <../results/politicians.md>",
        "The paper's ten papers <../results/arxiv-case/arxiv-case.md>",
        "Twitter <../results/twitter.md>",
        "Twitter, what is left of P_20_50 <../results/p-20-50-partial/twitter.md>",
        "Twitter, by degree <../results/twitter-degree.md>",
        "Twitter, by relation <../results/twitter-edges.md>",
        "ogbn-arxiv's graph, stand-in features <../results/arxiv/arxiv.md>",
        "The same, attention with cut sizes <../results/arxiv-attention/arxiv.md>",
        "Benchmarks <../benchmarks/README.md>",
    ],
}

# Names of types that the API page explains once, instead of spelling them out in every signature.
ALIASES = ["EdgeList", "Forward", "Graph", "Labels", "Nodes", "Source", "Task", "Transform"]

project = "NORA"
author = "the NORA developers"
copyright = f"{author}, MIT licence"
version = release = nora.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "accessible",
    "aliases",
    "commands",
    "gallery",
    "navigation",
]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/notebooks/*.ipynb",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "results/*.md",
    "results/paper/*.md",
    "results/published/*.md",
    "results/arxiv-case/*.md",
    "results/arxiv/*.md",
    "results/arxiv-attention/*.md",
    "results/p-20-50-partial/*.md",
    "benchmarks/*.md",
]
exclude_patterns = [
    ".*",
    "**/.*",
    "build",
    "dist",
    "node_modules",
    "runs",
    "site",
    "src",
    "tests",
    "web",
]
smartquotes = False  # they make one dash of the two in --option
templates_path = ["templates"]

nb_execution_mode = "off"  # the tests run them
myst_heading_anchors = 4

# Docstrings say `[N, C]` in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ALIASES}
autoclass_content = "class"
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = "NORA"
html_logo = html_favicon = "assets/logo.svg"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "to-first-page.html"}
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
pygments_style = "site_colours.Light"
pygments_dark_style = "site_colours.Dark"
html_theme_options = {"top_of_page_buttons": []}

linkcheck_anchors = False
linkcheck_timeout = 20
