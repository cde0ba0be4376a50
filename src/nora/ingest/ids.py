"""Ids that are the same to a person and not to a program.

A column of whole numbers with a gap is a column of floats to pandas, which then writes `1000.0` for
`1000`. Where both spellings occur they are one node, and joined. Ids that differ in case or in blanks may
well be two nodes: they stay apart, and are told about.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.cells import Words, plain_ascii
from nora.ingest.table import Table

WHOLE = re.compile(r"-?(?:0|[1-9]\d*)\.0")
# Characters without a width, which no split on blanks removes.
INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")

IdColumns = tuple[Table, tuple[int, ...]]


class KnownIds:
    """The ids met so far, in Python only when somebody looks at each."""

    def __init__(self, columns: Iterable[Words]) -> None:
        self._columns = list(columns)
        self._plain: set[str] | None = None

    def add(self, words: Words) -> None:
        """Those of one more column."""
        self._columns.append(words)
        self._plain = None

    def __iter__(self) -> Iterator[str]:
        return (str(one) for words in self._columns for one in words.distinct)

    def __contains__(self, text: str) -> bool:
        """Whether it is an id, be it with or without `.0`."""
        if self._plain is None:
            self._plain = {plain(one) for one in self}
        return plain(text) in self._plain

    def about_alike(self) -> list[str]:
        """See the function of this name."""
        return about_alike([words.texts for words in self._columns])


def plain(text: str) -> str:
    """A whole number without the `.0` that a column of floats gives it; other text as it is.

    >>> plain("1000.0"), plain("v1.0"), plain("007.0")
    ('1000', 'v1.0', '007.0')
    """
    return text[:-2] if text.endswith(".0") and WHOLE.fullmatch(text) else text


def joined(tables: Mapping[str, IdColumns], notes: list[str]) -> dict[str, Table]:
    """The tables with every id in one spelling, where `N` and `N.0` both occur among them.

    Args:
        tables: By any key, a table and its columns of ids.
        notes: Gets a sentence for each file in which ids were respelt.

    Raises:
        ValueError: When both occur, and a column has ids in `.0` that are no whole numbers: then
            `.0` may mean something.
    """
    result = {key: table for key, (table, _) in tables.items()}
    words = {
        (key, at): table.words(at) for key, (table, columns) in tables.items() for at in columns
    }
    if not any(pc.any(pc.ends_with(one.texts, ".0")).as_py() for one in words.values()):
        return result
    distinct = {place: one.distinct for place, one in words.items()}
    everything = {one for ids in distinct.values() for one in ids}
    twice = next((one for one in everything if plain(one) != one and plain(one) in everything), "")
    if not twice:
        return result
    respelt: dict[str, dict[str, None]] = {}
    for (key, at), ids in distinct.items():
        table = result[key]
        dotted = [str(one) for one in ids if one.endswith(".0")]
        whole = [one for one in dotted if plain(one) != one]
        if not whole:
            continue
        odd = next((one for one in dotted if plain(one) == one), None)
        if odd is not None:
            row = int(np.flatnonzero(table.cells[at] == odd)[0])
            raise ValueError(
                f"{table.place(row)}: are {plain(twice)!r} and {twice!r}, which both occur, the same "
                f"node? {odd!r} ends in '.0' too and is no whole number, so that cannot be told. "
                "Write every id in one way"
            )
        result[key] = table.with_text(at, in_one_spelling(table.cells[at]))
        respelt.setdefault(table.name, {}).update(dict.fromkeys(whole))
    for name, changed in respelt.items():
        example = next(iter(changed))
        are = "ids" if len(changed) > 1 else "id"
        notes.append(
            f"{len(changed):,} {are} of {name} written with '.0' (e.g. {example!r}): joined with "
            f"{plain(example)!r}, as whole numbers"
        )
    return result


def in_one_spelling(cells: np.ndarray) -> np.ndarray:
    """Text `[rows]` with `plain` whole numbers."""
    codes, distinct = pd.factorize(cells)
    return np.array([plain(one) for one in distinct], dtype=object)[codes]


def alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that differ only in case, blanks or the encoding of letters, the earlier first.

    >>> alike(["Ann Lee", "bob", "ann\\u00a0lee", "Bob"])
    [('Ann Lee', 'ann\\xa0lee'), ('bob', 'Bob')]
    """
    first: dict[str, str] = {}
    pairs = []
    for name in dict.fromkeys(names):
        letters = unicodedata.normalize("NFKC", name.translate(INVISIBLE))
        folded = "".join(letters.split()).casefold()
        if first.setdefault(folded, name) != name:
            pairs.append((first[folded], name))
    return pairs


def about_alike(columns: Sequence[pa.StringArray]) -> list[str]:
    """What there is to say about ids that look alike, if anything.

    >>> about_alike([pa.array(["Ann", "bob"]), pa.array(["ann", "bob"])])
    ["1 id differs from another only in case, blanks or encoding ('Ann' and 'ann'): taken as different nodes"]
    """
    ids = pa.concat_arrays(columns).unique()
    if plain_ascii(ids):
        folded = pc.ascii_lower(pc.replace_substring(ids, " ", ""))
        if pc.count_distinct(folded).as_py() == len(ids):
            return []
    pairs = alike(str(one) for one in ids.to_pylist())
    if not pairs:
        return []
    many = len(pairs) > 1
    return [
        f"{len(pairs):,} id{'s differ from others' if many else ' differs from another'} only in case, "
        f"blanks or encoding ({'e.g. ' * many}{pairs[0][0]!r} and {pairs[0][1]!r}): taken as different nodes"
    ]
