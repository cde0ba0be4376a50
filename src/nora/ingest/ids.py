"""Ids that are the same to a person and not to a program.

A column of whole numbers with a gap is a column of floats to pandas, which then writes `1000.0` for
`1000`. Where both spellings occur they are one node, and joined. Ids that differ in case or in blanks may
well be two nodes: they stay apart, and are noted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from nora.ingest.table import Column, Table, plain_ascii
from nora.wording import count

WHOLE = re.compile(r"-?(?:0|[1-9]\d*)\.0")
# Characters without a width, which no split on blanks removes.
INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")


@dataclass(frozen=True, eq=False)
class IdTable:
    """A table with its columns of ids: the two ends of edges, or the id of a node."""

    table: Table
    ids: tuple[int, ...]

    @property
    def columns(self) -> list[Column]:
        """The columns of ids."""
        return [self.table.cells[at] for at in self.ids]


@dataclass(frozen=True, eq=False)
class KnownIds:
    """The ids of some tables; objects of Python only when each is looked at."""

    tables: Sequence[IdTable]

    @cached_property
    def plain(self) -> set[str]:
        """All of them, whole numbers without `.0`."""
        return {
            plain_id(one) for named in self.tables for ids in named.columns for one in ids.distinct
        }

    def __contains__(self, text: str) -> bool:
        """Whether it is an id, be it with or without `.0`."""
        return plain_id(text) in self.plain


def plain_id(text: str) -> str:
    """A whole number without the `.0` that a column of floats gives it; other text as it is.

    >>> plain_id("1000.0"), plain_id("v1.0"), plain_id("007.0")
    ('1000', 'v1.0', '007.0')
    """
    return text[:-2] if text.endswith(".0") and WHOLE.fullmatch(text) else text


def with_one_spelling(tables: dict[str, IdTable], notes: list[str]) -> dict[str, IdTable]:
    """The tables with every id in one spelling, where `N` and `N.0` both occur among them.

    Raises:
        ValueError: When both occur, and a column has ids in `.0` that are not whole numbers: then
            `.0` may mean something.
    """
    columns = [ids for named in tables.values() for ids in named.columns]
    if not any(pc.any(pc.ends_with(ids.texts, ".0")).as_py() for ids in columns):
        return tables
    everything = {one for ids in columns for one in ids.distinct}
    twice = next(
        (one for one in everything if plain_id(one) != one and plain_id(one) in everything), ""
    )
    if not twice:
        return tables
    result = dict(tables)
    respelt: dict[str, dict[str, None]] = {}
    for key, named in tables.items():
        for at in named.ids:
            table = result[key].table
            dotted = [str(one) for one in table.cells[at].distinct if one.endswith(".0")]
            whole = [one for one in dotted if plain_id(one) != one]
            if not whole:
                continue
            odd = next((one for one in dotted if plain_id(one) == one), None)
            if odd is not None:
                raise ValueError(
                    f"{table.place(table.cells[at].first(odd))}: are {plain_id(twice)!r} and {twice!r}, "
                    f"which both occur, the same node? {odd!r} ends in '.0' too and is not a whole "
                    "number, so this is ambiguous. Write every id in one way"
                )
            result[key] = replace(named, table=table.respelt(at, plain_id))
            respelt.setdefault(table.name, {}).update(dict.fromkeys(whole))
    for name, changed in respelt.items():
        example = next(iter(changed))
        notes.append(
            f"{count(len(changed), 'id')} of {name} written with '.0' (e.g. {example!r}): joined with "
            f"{plain_id(example)!r}, as whole numbers"
        )
    return result


def lookalikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that differ only in case, blanks or the encoding of letters, the earlier first.

    >>> lookalikes(["Ann Lee", "bob", "ann\\u00a0lee", "Bob"])
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


def about_lookalikes(columns: Iterable[Column]) -> list[str]:
    """Notes about ids that differ in case or blanks alone.

    >>> print(*about_lookalikes([Column(pa.array(["Ann", "bob"])), Column(pa.array(["ann", "bob"]))]))
    1 id differs from another only in case, blanks or encoding ('Ann' and 'ann'): treated as different nodes
    """
    ids = pa.concat_arrays([column.texts for column in columns]).unique()
    if plain_ascii(ids):
        folded = pc.ascii_lower(pc.replace_substring(ids, " ", ""))
        if pc.count_distinct(folded).as_py() == len(ids):
            return []
    pairs = lookalikes(str(one) for one in ids.to_pylist())
    if not pairs:
        return []
    differ = count(len(pairs), "id differs from another", "ids differ from others")
    return [
        f"{differ} only in case, blanks or encoding ({'e.g. ' * (len(pairs) > 1)}{pairs[0][0]!r} and "
        f"{pairs[0][1]!r}): treated as different nodes"
    ]
