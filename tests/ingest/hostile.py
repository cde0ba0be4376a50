"""Hostile, malformed and merely odd inputs, each with the words it must be answered with.

A case is files by role (bytes, or a function that makes something else at a path) and either a pattern of
the error's message, or of a note where the input is taken after all.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Content = bytes | str | Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """Files by role with their names, and what is expected.

    Attributes:
        name: What is odd.
        refused: Pattern of the error's message; empty when the input is read.
        noted: Pattern of a note; empty when none is asked for.
        edges, features, labels: The files' contents.
        names: Other names of files than `edges.csv` and so on.
        options: For `read_graph`.
        check: Asked of the graph that is read.
    """

    name: str
    refused: str = ""
    noted: str = ""
    edges: Content = "source,target\na,b\nb,c\nc,a\nc,d\n"
    features: Content | None = None
    labels: Content | None = None
    names: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    check: Callable[[Any], bool] = lambda data: True


def zipped(name: str) -> bytes:
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(name, "<x/>")
    return held.getvalue()


def parquet(**columns: Any) -> Callable[[Path], Any]:
    return lambda path: pq.write_table(pa.table(columns), path)


def bomb(path: Path) -> None:
    """Rows without number in a few kilobytes."""
    rows = 3_000_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), ["a"])
    pq.write_table(pa.table({"source": column, "target": column}), path)


def text_parts() -> dict[str, bytes]:
    """A good edge list that is packed, or not text at all."""
    good = b"source,target\na,b\nb,c\n"
    return {
        "gzip": gzip.compress(good),
        "bzip2": bz2.compress(good),
        "xz": lzma.compress(good),
        "zstd": b"\x28\xb5\x2f\xfd" + bytes(20),
        "7z archive": b"7z\xbc\xaf\x27\x1c" + bytes(20),
        "RAR archive": b"Rar!\x1a\x07" + bytes(20),
        "Parquet file": b"PAR1" + bytes(20) + b"PAR1",
        r"Excel workbook; name it \.xlsx": zipped("xl/workbook.xml"),
        "ZIP archive": zipped("edges.csv"),
        r"Excel workbook \(\.xls\)": b"\xd0\xcf\x11\xe0" + bytes(20),
        "PDF": b"%PDF-1.7\n",
        "picture": b"\x89PNG\r\n\x1a\n",
        "JPEG": b"\xff\xd8\xff\xe0",
        "SQLite": b"SQLite format 3\x00",
        "HDF5": b"\x89HDF\r\n",
        "NumPy array": b"\x93NUMPY\x01",
        "a program": b"\x7fELF\x02\x01",
        "Arrow file": b"ARROW1\x00\x00",
        "pickle": pickle.dumps({"a": 1}),
        "GraphML": b'<?xml version="1.0"?><graphml/>',
        "GEXF": b'<?xml version="1.0"?><gexf/>',
        "a web page": b"<!DOCTYPE html><html></html>",
        "JSON": b'{"edges": [[1, 2]]}',
        "Matrix Market": b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
        "RTF": b"{\\rtf1\\ansi a,b}",
        "UTF-16 without": "source,target\na,b\nb,c\n".encode("utf-16-le"),
        "UTF-16 without a byte": "source,target\na,b\nb,c\n".encode("utf-16-be"),
        "binary data": b"source,target\na,\x00\x01\x02\x03b\n",
        "is not UTF-8": b"source,target\na,b\nb\xe9,c\n",
    }


LABELS = "id,label\na,x\nb,y\nc,x\nd,y\n"
FEATURES = "id,age,height\na,1,5\nb,2,6\nc,3,7\nd,4,9\n"


def wide(cell: str, columns: int = 30) -> str:
    """A table of numbers with one other cell, in the third row."""
    rows = [["id", *(f"w{at}" for at in range(columns))]]
    rows += [[name, *("1" if at % 3 else "0" for at in range(columns))] for name in "abcd"]
    rows[3][7] = cell
    return "\n".join(",".join(row) for row in rows) + "\n"


def weights(*values: str) -> str:
    ends = ["a,b", "b,c", "c,d", "d,a"]
    rows = [f"{pair},{value}" for pair, value in zip(ends, values, strict=False)]
    return "source,target,weight\n" + "\n".join(rows) + "\n"


CASES = [
    *(Case(f"{what} named .csv", refused=what, edges=raw) for what, raw in text_parts().items()),
    *(
        Case(f"{what} given as labels", refused=what, labels=raw)
        for what, raw in list(text_parts().items())[:6]
    ),
    # Sizes.
    Case(
        "one line of 20 MB", "more than 16 MB; are its line ends missing", edges="a," * 10_000_000
    ),
    Case(
        "a line of 150,000 columns",
        "150,001 columns.*id,feature,value",
        edges="a," * 150_000 + "\nb\n",
    ),
    Case("a cell of a megabyte", "(?s)edges.csv", edges="source,target\n" + "a" * 10**6 + '"\n'),
    Case(
        "a quotation mark left open",
        "line 3: a quotation mark is left open",
        edges='source,target\na,c\na,"b\nb,c\n',
    ),
    Case(
        "a Parquet file of more rows than fit",
        r"3,000,000 rows\) would take .* memory='1MB' allows",
        edges=bomb,
        names={"edges": "edges.parquet"},
        options={"memory": "1MB"},
    ),
    Case(
        "a gzip file that grows beyond what fits",
        "would take .* memory='1MB' allows",
        edges=gzip.compress(b"source,target\n" + b"a,b\n" * 10**6),
        names={"edges": "edges.csv.gz"},
        options={"memory": "1MB"},
    ),
    Case(
        "a gzip file that is cut off",
        "is cut off",
        edges=gzip.compress(b"source,target\na,b\nb,c\n" * 9)[:-9],
        names={"edges": "edges.csv.gz"},
    ),
    Case(
        "no gzip file",
        "is not a readable gzip file",
        edges=b"source,target\n",
        names={"edges": "e.csv.gz"},
    ),
    Case(
        "as many classes as nodes share in pairs",
        "60 classes for 120 labelled nodes, 2.0 each",
        edges="source,target\n" + "".join(f"n{k},n{k + 1}\n" for k in range(119)),
        labels="id,label\n" + "".join(f"n{k},c{k // 2}\n" for k in range(120)),
    ),
    Case(
        "features that do not fit",
        "3,000 features of 3,000 nodes would take 36.0 MB",
        edges="source,target\n" + "".join(f"n{k},n{k + 1}\n" for k in range(2999)),
        features="id,feature\n" + "".join(f"n{k},f{k}\n" for k in range(3000)),
        options={"memory": "30MB"},
    ),
    # Not a file.
    Case("a pipe", "is a pipe", edges=lambda path: os.mkfifo(path)),
    Case("a device", "is a device", edges=lambda path: path.symlink_to("/dev/zero")),
    Case("a folder as labels", "is a folder; name a file", labels=lambda path: path.mkdir()),
    Case(
        "a folder of nothing as edges",
        "neither OGB's .* nor one that PyG",
        edges=lambda path: path.mkdir(),
    ),
    Case("a name that says nothing", "unknown format", names={"edges": "edges.dat"}),
    Case("a pickled graph", "is a pickle", edges=b"x", names={"edges": "graph.gpickle"}),
    Case("an empty file", "is empty", edges=""),
    Case("blanks only", "is empty", edges="\n  \n\n"),
    Case("a header only", "no rows below its header", edges="source,target\n"),
    Case("commas only", "all of its cells are blank", edges="source,target\n,\n,\n"),
    # Spreadsheets.
    Case(
        "Excel's sep line",
        edges="sep=;\nsource;target\na;b\nb;c\n",
        check=lambda d: d.num_edges == 4,
    ),
    Case(
        "Excel's sep line in quotes",
        edges='"sep=,"\nsource,target\na,b\nb,c\n',
        check=lambda d: d.num_edges == 4,
    ),
    Case(
        "Excel's sep line, then a slip", "line 4: 1 column", edges="sep=;\nsource;target\na;b\nbc\n"
    ),
    Case(
        "a separator of one's own, then a slip",
        r"line 4: 1 column.*first row has 2.*'\|'",
        edges="sep=|\nsource|target\na|b\nbc\n",
    ),
    Case(
        "UTF-16 with a mark",
        edges="source,target\na,b\n".encode("utf-16"),
        check=lambda d: d.num_edges == 2,
    ),
    Case("old line ends", edges="source,target\ra,b\rb,c\r", check=lambda d: d.num_edges == 4),
    # One table for another.
    Case(
        "edges given as labels",
        "looks like a table of edges .* labels=",
        labels="source,target\na,b\nb,c\n",
    ),
    Case(
        "edges given as features",
        "looks like a table of edges .* features=",
        features="from,to,w\na,b,1\nb,c,1\n",
    ),
    Case(
        "labels given as edges", "looks like a table of labels", edges="id,label\na,x\nb,y\na,x\n"
    ),
    # Columns.
    Case(
        "two sources",
        "columns 1 and 2 are both called 'source'",
        edges="source,source,target\na,b,c\nb,c,a\n",
    ),
    Case(
        "two weights",
        "both called 'weight'",
        edges="source,target,weight,weight\na,b,1,2\nb,a,1,2\n",
    ),
    Case("two types", "both called 'type'", edges="source,target,type,type\na,b,1,2\nb,a,1,2\n"),
    Case("a feature twice", "both called 'age'", features="id,age,age\na,1,2\nb,1,2\n"),
    Case(
        "a feature twice in a wide table",
        "both called 'w3'",
        features=wide("1").replace("w4", "w3"),
    ),
    Case("two columns of ids", "both called 'id'", labels="id,id,label\na,a,x\nb,b,y\n"),
    Case("two labels", "both called 'label'", labels="id,label,label\na,x,y\nb,y,x\n"),
    Case(
        "a repeated column that is left out",
        features="id,age,bio,bio\na,1,,\nb,2,,\n",
        options={"ignore": ["bio"]},
    ),
    Case(
        "a feature called class beside labels",
        noted="'class' of features.csv is used as a feature",
        features="id,class\na,1\nb,1\nc,2\nd,2\n",
        labels=LABELS,
    ),
    Case(
        "a column called class that tells the labels",
        noted="not used as a feature",
        features="id,age,class\na,1,p\nb,2,q\nc,1,p\nd,2,q\n",
        labels=LABELS,
    ),
    # Numbers.
    Case(
        "a weight of 1e39",
        r"line 3.*'1e39'.*1e\+30",
        edges=weights("1", "1e39", "1"),
    ),
    Case(
        "a weight of 1e308, twice",
        "line 2: the weight '1e308' is more",
        edges=weights("1e308", "1e308", "1"),
    ),
    Case(
        "a weight of 1e-300",
        "line 2.*'1e-300'.*1e-30",
        edges=weights("1e-300", "1"),
    ),
    Case(
        "weights beyond each other",
        r"line 3: the weight '1e400' is not finite",
        edges=weights("1", "1e400"),
    ),
    Case("a weight of nan", "the weight 'nan' is not a number", edges=weights("1", "nan")),
    Case("a weight of inf", "the weight 'inf' is not finite", edges=weights("1", "inf")),
    Case("a negative weight", "line 3: the weight '-2' is negative", edges=weights("1", "-2")),
    Case(
        "a blank weight", "line 3: the weight that is blank is not a number", edges=weights("1", "")
    ),
    Case("weights of 0", r"all weights are 0.*ignore=\['weight'\]", edges=weights("0", "0")),
    Case(
        "weights in words",
        "line 3: the weight 'strong' is not a number",
        edges=weights("1", "strong"),
    ),
    Case(
        "features of 1e300",
        features="id,f\na,1e300\nb,2e300\nc,3e300\nd,4e300\n",
        check=lambda d: bool(d.x.isfinite().all()) and float(d.x.std()) > 0.5,
    ),
    Case(
        "features of 1e-300",
        features="id,f\na,1e-300\nb,2e-300\nc,3e-300\nd,4e-300\n",
        check=lambda d: bool(d.x.isfinite().all()) and float(d.x.std()) > 0.5,
    ),
    Case(
        "features at both ends of what floats hold",
        features="id,f\na,-1.7e308\nb,1.7e308\nc,0\nd,1\n",
        check=lambda d: bool(d.x.isfinite().all()),
    ),
    Case(
        "a feature of inf",
        "'inf' in the column 'f' is not finite",
        features="id,f\na,inf\nb,2\nc,3\nd,4\n",
    ),
    Case(
        "a feature of inf in a wide table",
        "line 4: 'inf'.*'w6'",
        features=wide("inf"),
    ),
    Case(
        "a word in a wide table",
        "line 4: 'many'.*'w6'",
        features=wide("many"),
    ),
    Case(
        "a number beyond all in a wide table",
        features=wide("1e300"),
        check=lambda d: bool(d.x.isfinite().all()),
    ),
    Case(
        "a blank in a wide table",
        noted="1 blank cell of features.csv",
        features=wide(""),
    ),
    Case(
        "an NA in a wide table",
        noted="1 blank cell of features.csv",
        features=wide("NA"),
    ),
    Case(
        "a row too short in a wide table",
        "line 6: 2 columns, which is too few",
        features=wide("1") + "d,1\n",
    ),
    Case("a wide table in quotes", features=wide('"1"'), check=lambda d: d.x.size(1) == 30),
    Case(
        "hexadecimal numbers in a wide table",
        "line 4: '0x1F'.*'w6'",
        features=wide("0x1F"),
    ),
    Case(
        "a wide table of the same node twice",
        "line 6: 'd' has features already",
        features=wide("1") + "d" + ",5" * 30 + "\n",
    ),
    Case(
        "a repeated row of a wide table",
        noted="1 repeated row of features.csv",
        features=wide("1") + wide("1").splitlines()[-1] + "\n",
    ),
    # Labels.
    Case(
        "classes 0 and 0.0",
        noted="'0' and '0.0' of labels.csv",
        labels="id,label\na,0\nb,0.0\nc,1\nd,1\n",
        check=lambda d: d.y.tolist() == [0, 0, 1, 1],
    ),
    Case(
        "labels of nan",
        noted="1 label 'nan' of labels.csv",
        labels="id,label\na,nan\nb,x\nc,y\nd,x\n",
        check=lambda d: d.y.tolist() == [-1, 0, 1, 0],
    ),
    Case("labels of NaN", noted="2 labels 'NaN'", labels="id,label\na,NaN\nb,NaN\nc,y\nd,y\n"),
    Case(
        "a class called NA",
        noted="'NA' is used as",
        labels="id,label\na,NA\nb,NA\nc,y\nd,y\n",
    ),
    Case("labels all nan", "every label is blank", labels="id,label\na,nan\nb,nan\nc,nan\nd,nan\n"),
    Case(
        "two labels of a node",
        "line 3: 'a' has a label already.*line 2",
        labels="id,label\na,x\na,y\n",
    ),
    Case(
        "a control character in a class",
        "holds a control character",
        labels="id,label\na,\x1b[31mx\nb,y\nc,y\n",
    ),
    Case("ids of no node", "do the ids match", labels="id,label\nq,x\nr,y\n"),
    # Lists of features.
    Case(
        "a list of features",
        features="id,feature\na,p\na,q\nb,p\n",
        noted="a list of 3 features",
        check=lambda d: d.x.tolist() == [[1, 1], [1, 0], [0, 0], [0, 0]],
    ),
    Case(
        "a list with values",
        features="id,word,count\na,p,2\nb,q,4\n",
        check=lambda d: d.x.count_nonzero() == 2,
    ),
    Case(
        "a value that is a word",
        "line 3: the value 'x' is not a number",
        features="id,feature,value\na,p,1\nb,p,x\n",
    ),
    Case("a blank value", "line 3: the value is blank", features="id,feature,value\na,p,1\nb,p,\n"),
    Case("a blank feature", "line 3: the feature is blank", features="id,feature\na,p\nb,\n"),
    Case(
        "two values of one feature",
        "line 3: 'a' has the feature 'p' already",
        features="id,feature,value\na,p,1\na,p,2\n",
    ),
    Case("a feature listed twice", noted="1 repeated row", features="id,feature\na,p\na,p\n"),
    Case(
        "values of 1e300",
        features="id,feature,value\na,p,1e300\nb,p,2e300\n",
        check=lambda d: bool(d.x.isfinite().all()),
    ),
    # Matrices.
    Case(
        "a matrix of edges",
        edges="%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n",
        names={"edges": "edges.mtx"},
        check=lambda d: d.num_edges == 4,
    ),
    Case(
        "a matrix that is not square as edges",
        "a matrix of 2 by 3: edges are a square one",
        edges="%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 2\n",
        names={"edges": "edges.mtx"},
    ),
    Case(
        "a matrix of complex numbers",
        "its numbers are complex",
        names={"edges": "edges.mtx"},
        edges="%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 1\n",
    ),
    Case(
        "no matrix",
        "is not a readable Matrix Market file",
        edges="1 2\n",
        names={"edges": "edges.mtx"},
    ),
    Case(
        "a matrix that claims to be huge",
        "would take",
        names={"edges": "edges.mtx"},
        options={"memory": "1GB"},
        edges="%%MatrixMarket matrix coordinate pattern general\n999999999 999999999 9999999999\n1 2\n",
    ),
    Case(
        "a matrix that is cut off",
        "is not a readable Matrix Market file",
        names={"edges": "edges.mtx"},
        edges="%%MatrixMarket matrix coordinate pattern general\n3 3 4\n1 2\n",
    ),
    # Frames and Parquet.
    Case(
        "a Parquet file of numbers",
        edges=parquet(source=[1, 2, 3], target=[2, 3, 1]),
        names={"edges": "e.parquet"},
        check=lambda d: d.num_edges == 6,
    ),
    Case(
        "features in place of edges, as Parquet",
        r"looks like a table of nodes \(id, age, height\), not of edges.*features=",
        edges=parquet(id=[0, 1, 2, 3], age=[1, 0, 1, 1], height=[1.5, 1.7, 1.8, 1.6]),
        names={"edges": "e.parquet"},
    ),
    Case(
        "features in place of edges, with ids of another name",
        "looks like a table of nodes",
        edges=parquet(account=["a", "b", "c"], score=[0.5, 0.25, 1.0]),
        names={"edges": "e.parquet"},
    ),
    Case(
        "edges of other names, as Parquet",
        noted="'wer' and 'wen' of e.parquet",
        edges=parquet(wer=["a", "b", "c"], wen=["b", "c", "a"]),
        names={"edges": "e.parquet"},
        check=lambda d: d.num_edges == 6,
    ),
    Case(
        "a Parquet file of lists",
        "neither text nor numbers",
        edges=parquet(source=[1, 2], target=[[2], [1]]),
        names={"edges": "e.parquet"},
    ),
    Case(
        "a Parquet file that is none",
        "is not a readable Parquet file",
        edges=b"PAR1",
        names={"edges": "e.parquet"},
    ),
    Case(
        "a Parquet file with two weights",
        "both called 'weight'",
        names={"edges": "e.parquet"},
        edges=lambda path: pq.write_table(
            pa.Table.from_arrays(
                [pa.array(["a"]), pa.array(["b"]), pa.array([1]), pa.array([2])],
                names=["source", "target", "weight", "weight"],
            ),
            path,
        ),
    ),
    Case(
        "infinite weights in a Parquet file",
        "is not finite",
        names={"edges": "e.parquet"},
        edges=parquet(source=["a", "b"], target=["b", "c"], weight=[1.0, float("inf")]),
    ),
    Case(
        "NaN among the features of a Parquet file",
        noted="1 blank cell of f.parquet",
        features=parquet(id=list("abcd"), age=[1.0, float("nan"), 3.0, 3.5]),
        names={"features": "f.parquet"},
        check=lambda d: float(d.x[1, 0]) == 0,
    ),
    Case(
        "labels 1 and 1.0 in a Parquet file",
        labels=parquet(id=list("abcd"), label=[1.0, 1.0, 2.0, 2.0]),
        names={"labels": "l.parquet"},
        check=lambda d: d.y.tolist() == [0, 0, 1, 1],
    ),
    Case(
        "GraphML that is not XML",
        "is not well-formed XML",
        edges="source,target\n",
        names={"edges": "g.graphml"},
    ),
    Case(
        "GraphML with entities",
        "defines XML entities",
        edges='<!DOCTYPE x [<!ENTITY a "b">]><graphml/>',
        names={"edges": "g.graphml"},
    ),
    # As spreadsheets of people write it.
    *(
        Case(f"a workbook {end}", "is a spreadsheet; save", edges=b"PK", names={"edges": f"e{end}"})
        for end in (".xls", ".ods")
    ),
    Case(
        "umlauts of Windows",
        r"line 2: byte 0xf6 \(as Windows writes 'ö'\) is not UTF-8.*CSV UTF-8",
        edges="source;target\nKöhler;Lang\n".encode("cp1252"),
    ),
    *(
        Case(
            f"a title above the names of columns: {title!r}",
            "a title.*delete it",
            edges=title + rows,
        )
        for title in ("Ties, 2025;;\n", "Ties\n")
        for rows in ("source;target;weight\na;b;1\n",)
    ),
    Case("a title above features", "a title.*delete it", features="People,\nid,age\na,1\nb,2\n"),
    Case(
        "weights with thousands points and decimal commas",
        edges="source;target;weight\na;b;1.967,14\nb;c;351,75\nc;d;1.967\n",
        check=lambda d: np.allclose(sorted(set(d.edge_weight.tolist())), [351.75, 1967, 1967.14]),
    ),
    *(
        Case(
            f"1.967 beside {other}",
            f"line 2: '1.967' in the column 'weight', beside '{other}'",
            edges=f"source;target;weight\na;b;1.967\nb;c;{other}\n",
        )
        for other in ("351,75", "351")
    ),
    Case(
        "1.967 beside decimal points",
        edges="source;target;weight\na;b;1.967\nb;c;351\nc;d;2.5\n",
        check=lambda d: np.allclose(sorted(set(d.edge_weight.tolist())), [1.967, 2.5, 351]),
    ),
    Case(
        "a decimal point beside thousands points",
        "line 3: the weight '2.5' is not a number",
        edges="source;target;weight\na;b;1.967,14\nb;c;2.5\n",
    ),
    *(
        Case(
            f"the weight {number}",
            "without thousands separators",
            edges=f'source,target,weight\na,b,"{number}"\nb,c,3\n',
        )
        for number in ("1,967.14", "1'967", "1 967", "2,5")
    ),
    *(
        Case(
            f"features such as {number}",
            f"line 2: .* in the column 'u' looks like a number.*{ending}",
            features=f'id,u\na,"{number}"\nb,"2{number}"\nc,"{number}"\nd,7\n',
        )
        for number, ending in (("1,5", "1967.14"), ("1,967", "1967.14"), ("1’967.5", "ignore"))
    ),
    Case(
        "one number with thousands separators among others",
        "line 2: .* is not a number, unlike others.*without thousands",
        features="id,u\na,1'967\nb,2\nc,3\nd,4\n",
    ),
    Case(
        "a list of features with decimal commas",
        "line 2.*'1,5'.*decimal point",
        features='id,feature,value\na,u,"1,5"\nb,u,2\n',
    ),
    Case(
        "dates of other countries",
        noted="'u' of features.csv looks like dates",
        features="id,u\na,31.12.2014\nb,1/2/2015\nc,31.12.2014\nd,\n",
    ),
    Case(
        "a weight of 400 digits",
        r"line 2: the weight '9{40} …' is not finite$",
        edges=f"source,target,weight\na,b,{'9' * 400}\nb,c,1\n",
    ),
    Case(
        "UTF-32",
        "edges.csv is UTF-32; save it as UTF-8",
        edges="source,target\na,b\n".encode("utf-32"),
    ),
    Case(
        "a first cell without end",
        "line 1: a cell of 200,000 characters",
        edges="a" * 200_000 + ",b\nb,c\n",
    ),
    Case(
        "a blank line of blanks above a slip",
        "line 5: the target id is blank",
        edges="source,target\na,b\n   \nb,c\nc,\n",
    ),
    Case(
        "thousands points in a wide table",
        "line 2: '1.967' in the column 'w1', beside '0'.*thousands separator",
        features=wide("1")
        .replace(",", ";")
        .replace("a;0;1;", "a;0;1.967;")
        .replace("b;0;1;", "b;0;0;"),
    ),
    Case(
        "names in place of numbers in a folder of OGB's",
        "edge.csv, line 1: 'a'",
        edges=lambda path: (path.mkdir(), (path / "edge.csv").write_text("a,b\n1,2\n")),
        names={"edges": "folder"},
    ),
    Case(
        "a second line without end",
        "line 3.*3,000,002 characters",
        edges="source,target\na,b\n" + "y" * 3_000_000 + ",c\n",
    ),
    Case(
        "a matrix that holds no number",
        "e.mtx.*row 1, column 2",
        edges="%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 nan\n2 3 1\n",
        names={"edges": "e.mtx"},
    ),
    Case(
        "a matrix with negative weights",
        "e.mtx, row 2: the weight .* is negative",
        edges="%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n2 3 -1\n",
        names={"edges": "e.mtx"},
    ),
]
