"""Twitter in 2019 (Xiao et al., TIMME, 2020): politicians and their followers, five relations.

One node type, `user`, and one edge type per relation, `("user", "friend", "user")` and so on, from
the one who acts to the one acted upon. There are no features but who one is: `data["user"].x` holds
each user's own number `[N]` (long), which a model looks up in an embedding table. It stays with the
user when others are removed. `y` is 0 for Democrats, 1 for Republicans, −1 for everybody else,
independents among them. How often something happened is each relation's `count` `[E]`; our TIMME
does not use it (weighing by it, as TIMME's own scripts do, hardly changed accuracy and AUC on PureP).

The files are those of TIMME's repository. Two things that its pages do not mention, found by counting:

- The users are those that take part in some relation. `all_twitter_ids.csv` lists 606 more for
  P_20_50, with whom the published 12,103 would be 12,709; in PureP and P50 there are none.
- The numbers published as "90 % for training" are 85 % of the lines (15 % of them, rounded up, are
  held out). With the published totals this gives the length of every file.

Short ids such as 12 and 13 are real: Twitter's first accounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch_geometric.data import HeteroData

from nora.datasets import (
    DATASETS,
    Dataset,
    DatasetUnavailableError,
    cache_folder,
    given_folder,
)

URL = "https://github.com/PatriciaXiao/TIMME"
RELATIONS = ("friend", "reply", "retweet", "favorite", "mention")
PARTIES = {"D": 0, "R": 1}
MORE_LABELS = Path("additional_labels") / "new_dict_cleaned.csv"


@dataclass(frozen=True)
class Published:
    """The facts of TIMME's readme files about a dataset.

    Attributes:
        folder: Its folder in the repository's `data`.
        users: Number of users.
        links: Number of links of each relation, in the order of `RELATIONS`.
        files: Files beside those of the relations, relative to `data`.
    """

    folder: str
    users: int
    links: tuple[int, ...]
    files: tuple[Path, ...]

    def file(self, relation: str) -> Path:
        """The file of a relation, relative to `data`."""
        return Path(self.folder) / f"{relation}_list.csv"


def _published(folder: str, users: int, links: tuple[int, ...], *more: Path) -> Published:
    own = (Path(folder) / "all_twitter_ids.csv", Path(folder) / "dict.csv")
    return Published(folder, users, links, (*own, *more))


# The additional labels are of ordinary users: PureP has none.
PUBLISHED = {
    "pure-p": _published("PureP", 583, (59_073, 1_451, 19_760, 14_381, 27_682)),
    "p50": _published("P50", 5_435, (529_448, 96_757, 311_359, 302_571, 353_586), MORE_LABELS),
    "p-20-50": _published(
        "P_20_50", 12_103, (158_746, 121_133, 595_030, 562_496, 539_580), MORE_LABELS
    ),
}


@DATASETS.register("pure-p", "Twitter: 583 politicians, 5 relations, 2 parties (TIMME's PureP)")
def pure_p() -> Dataset:
    """Politicians only."""
    return _complete("pure-p")


@DATASETS.register("p50", "Twitter: 5,435 politicians and followers, 5 relations (TIMME's P50)")
def p50() -> Dataset:
    """Politicians and the users who follow, or are followed by, at least 50 of them."""
    return _complete("p50")


@DATASETS.register("p-20-50", "Twitter: 12,103 users, 5 relations, 2 parties (TIMME's P_20_50)")
def p_20_50() -> Dataset:
    """Politicians, users tied to 20 to 50 of them, and outsiders."""
    return _complete("p-20-50")


@DATASETS.register(
    "p-20-50-partial",
    "a part of P_20_50: two of its five relations (friend, reply)",
)
def p_20_50_partial() -> Dataset:
    """P_20_50 without the relations whose files are missing: for work on speed and scale."""
    published = PUBLISHED["p-20-50"]
    lists = {relation: published.file(relation) for relation in RELATIONS}
    folder = _folder("p-20-50-partial", published.files)
    present = tuple(relation for relation, file in lists.items() if (folder / file).exists())
    if not present:
        raise _unavailable("p-20-50-partial", list(lists.values()), folder)
    if present == RELATIONS:
        raise ValueError(
            f"all five relations are in {folder / published.folder}: load 'p-20-50', the whole of it"
        )
    return _read("p-20-50-partial", folder, published, present)


def _complete(name: str) -> Dataset:
    published = PUBLISHED[name]
    files = (*published.files, *(published.file(relation) for relation in RELATIONS))
    dataset = _read(name, _folder(name, files), published, RELATIONS)
    if dataset.data.num_nodes != published.users:
        raise ValueError(
            f"{name} has {dataset.data.num_nodes} users here, {published.users} as published: are its "
            f"files complete? Get them again from {URL}"
        )
    return dataset


def _folder(name: str, files: tuple[Path, ...]) -> Path:
    """The first of the given and the cached folder that holds all `files`."""
    places = [base / "TIMME" for base in (given_folder(), cache_folder()) if base]
    for place in places:
        if all((place / file).exists() for file in files):
            return place
    begun = [place for place in places if any((place / file).exists() for file in files)]
    place = begun[0] if begun else places[-1]
    raise _unavailable(name, [file for file in files if not (place / file).exists()], place)


def _unavailable(name: str, missing: list[Path], place: Path) -> DatasetUnavailableError:
    return DatasetUnavailableError(
        f"{name} is not complete. Missing: {', '.join(file.as_posix() for file in missing)}. Get "
        f"them from the folder data of {URL} and put them into {place} under these names, or set "
        f"NORA_DATA to a folder that holds TIMME with them"
    )


def _read(name: str, folder: Path, published: Published, relations: tuple[str, ...]) -> Dataset:
    known = _table(folder / published.files[0], ["twitter_id"]).twitter_id.drop_duplicates()
    lists = {r: _links(folder / published.file(r), known) for r in relations}
    for relation, links in lists.items():
        expected = published.links[RELATIONS.index(relation)]
        if len(links) != expected:
            raise ValueError(
                f"{folder / published.file(relation)} has {len(links)} links, {expected} as "
                f"published: is it complete? Get it again from {URL}"
            )
    taking_part = pd.concat(
        [links[end] for links in lists.values() for end in ("source", "target")]
    )
    users = known[known.isin(taking_part)].reset_index(drop=True)
    number = pd.Series(users.index, index=users)

    data = HeteroData()
    data["user"].x = torch.arange(len(users))
    data["user"].y = torch.from_numpy(_parties(folder, published, users).to_numpy(copy=True))
    data["user"].twitter_id = torch.from_numpy(users.to_numpy(copy=True))
    data["user"].num_nodes = len(users)
    for relation, links in lists.items():
        ends = [number[links[end]].to_numpy(copy=True) for end in ("source", "target")]
        edges = data["user", relation, "user"]
        edges.edge_index = torch.stack([torch.from_numpy(end) for end in ends])
        edges.count = torch.from_numpy(links["count"].to_numpy(copy=True))
    return Dataset(
        name,
        data,
        num_classes=len(PARTIES),
        node_names=_names(folder / published.files[1], users),
        class_names=("Democrat", "Republican"),
        node_ratios=(0.8, 0.1, 0.1),
        link_ratios=(0.8, 0.1, 0.1),
        negatives=3,
    )


def _table(path: Path, columns: list[str]) -> pd.DataFrame:
    """A tab-separated file that has these columns; ids are whole numbers."""
    try:
        table = pd.read_csv(path, sep="\t", dtype={"twitter_id": "int64"})
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not readable as a tab-separated table: {error}") from error
    if missing := [column for column in columns if column not in table]:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(map(str, table))}"
        )
    return table


def _links(path: Path, known: pd.Series) -> pd.DataFrame:
    """`source`, `target`, `count`: one row per link; lines that repeat a link add up."""
    table = _table(path, ["count"])
    # Who acts, who is acted upon, how often: the first two are named differently in each file.
    table = table.iloc[:, :3]
    if any(kind != "int64" for kind in table.dtypes) or len(table.columns) < 3:
        raise ValueError(
            f"{path} must hold three columns of whole numbers (from, to, count); it has "
            f"{', '.join(f'{column} ({kind})' for column, kind in table.dtypes.items())}"
        )
    table.columns = pd.Index(["source", "target", "count"])
    for end in ("source", "target"):
        if (strangers := table.loc[~table[end].isin(known), end]).size:
            raise ValueError(
                f"{path} names user {strangers.iloc[0]}, who is not in all_twitter_ids.csv "
                f"({strangers.nunique()} such users): do the two files belong together?"
            )
    return table.groupby(["source", "target"], sort=False)["count"].sum().reset_index()


def _parties(folder: Path, published: Published, users: pd.Series) -> pd.Series:
    """0, 1 or −1 for each user; the party of a politician takes precedence over additional labels."""
    tables = [_table(folder / file, ["twitter_id", "party"]) for file in published.files[1:]]
    party = pd.concat(tables).drop_duplicates("twitter_id").set_index("twitter_id").party
    return users.map(party).map(PARTIES).fillna(-1).astype("int64")


def _names(path: Path, users: pd.Series) -> tuple[str, ...]:
    """The politician's name, else `user` and the id."""
    table = _table(path, ["twitter_id", "name"])
    name = dict(zip(table.twitter_id, table["name"].str.strip(), strict=True))
    return tuple(name.get(user, f"user {user}") for user in users)
