"""Nodes by name, as they are typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nora.cli.parameters import parse_nodes
from shell import ok


def test_a_name_with_a_comma_is_one_name() -> None:
    assert parse_nodes(["Doe, Jane"], ["Roe", "Doe, Jane"], 2) == [1]


def test_a_slip_in_a_name_with_a_comma_is_reported_for_the_whole_name() -> None:
    with pytest.raises(ValueError, match=r"'Brauer, Anna'\..*mean 'Bräuer, Anna'"):
        parse_nodes(["Brauer, Anna"], ["Roe, Jo", "Bräuer, Anna"], 2)


def test_a_name_that_is_a_number_is_that_node() -> None:
    assert parse_nodes(["1"], ["1", "0"], 2) == [0]


def test_without_names_only_ids_will_do() -> None:
    with pytest.raises(ValueError, match="have no names"):
        parse_nodes(["jane"], None, 2)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Doe, Jo", [0]),
        ("Doe, Jo,bob", [0, 1]),
        ("bob,Doe, Jo", [1, 0]),
        ('"Doe, Jo",bob', [0, 1]),
        ('"Doe, Jo"', [0]),
        ('say "hi"', [2]),
        ('say "hi",bob', [2, 1]),
        ('"say ""hi""",bob', [2, 1]),
        ("a,b", [3]),
        ('"a","b"', [4, 5]),
        ("bob,1 2", [1, 6]),
    ],
)
def test_names_with_commas_and_quotes_are_found(text: str, ids: list[int]) -> None:
    names = ["Doe, Jo", "bob", 'say "hi"', "a,b", "a", "b", "1 2"]
    assert parse_nodes([text], names, 7) == ids


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,bob", '"a", "b", "bob" or "a,b", "bob"'),
        ('"bob,a', "a quote that is not closed"),
        ("Doe, Jim", "'Doe, Jim'. Did you mean 'Doe, Jo'?"),
        ('"Doe, Jim",bob', "'Doe, Jim'. Did you mean 'Doe, Jo'?"),
    ],
)
def test_names_that_can_be_read_in_two_ways_or_none_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_nodes([text], ["Doe, Jo", "bob", 'say "hi"', "a,b", "a", "b"], 6)


def test_a_thousand_names_are_read_at_once_and_cut_when_shown(karate: Path) -> None:
    names = [f"node {number}, Esq." for number in range(1000)]
    assert parse_nodes([",".join(names)], names, 1000) == list(range(1000))
    ids = ",".join(f"member {number}" for number in range(1, 31))
    assert "member 10 and 20 more:" in ok("what-if", karate, "--remove", ids)
