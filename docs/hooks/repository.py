"""Files of the repository that live outside `docs/`, and links that work on GitHub and on the site.

Pages are written for GitHub, with links as the repository lays its files out:
`[results](../results/citation.md)`. On the site the pages of `docs/` stand at the root, beside the
folders they link to, so such links lose their `..`. Results, benchmarks, examples and the pages at the
repository's root are brought along as they are.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
BROUGHT = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/results/*.json",
    "examples/*.py",
    "results/*.json",
    "results/*.md",
    "results/*.png",
)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")


def on_files(files: Files, *, config: Any) -> Files:
    """Bring the files along, each under its own path."""
    for pattern in BROUGHT:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository as they are on the site; whatever else stays as it is."""
    name = page.file.src_uri
    home = name if page.file.generated_by else f"docs/{name}"

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link[1]))
        if "://" in link[1] or not (ROOT / target).is_file():
            return link[1]
        return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(name) or ".")

    return LINK.sub(moved, markdown)
