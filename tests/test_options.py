"""Options: checked where they are made; keywords in Python, flags in a shell, and named so in messages."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError, dataclass

import pytest

from nora.options import Options, in_flags, option, setting, takes_options


@dataclass(frozen=True)
class Ride(Options):
    """How to ride."""

    speed: int = setting(3, "How fast.", least=1, most=9)
    way: str | None = setting(None, "Where along.", choices=("road", "river"))
    stops: tuple[str, ...] = setting((), "Where to stop.")


@takes_options
def ride(where: str, how: Ride = Ride()) -> tuple[str, Ride]:  # noqa: B008
    return where, how


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"speed": 0}, "speed must be at least 1, got 0"),
        ({"speed": 10}, "speed must be at most 9, got 10"),
        ({"speed": "3"}, "speed must be a whole number, got '3'"),
        ({"speed": None}, "speed must.*whole number, got None"),
        ({"way": "rail"}, "got way='rail'.*'road' or 'river'"),
    ],
)
def test_what_is_given_is_checked(given: dict[str, object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{says}$"):
        ride("home", **given)
    with pytest.raises((TypeError, ValueError), match=f"^{says}$"):
        Ride(**given)  # type: ignore[arg-type]


def test_one_text_where_several_fit_is_a_tuple_of_one() -> None:
    assert Ride(stops="inn").stops == ("inn",)  # type: ignore[arg-type]
    assert Ride(stops=["inn", "mill"]).stops == ("inn", "mill")  # type: ignore[arg-type]
    assert Ride(stops=None).stops == ()  # type: ignore[arg-type]


def test_keywords_change_the_options_that_are_passed() -> None:
    assert ride("home", how=Ride(speed=5), way="road") == ("home", Ride(5, "road"))
    with pytest.raises(TypeError, match=r"option 'sped'\. Did you mean 'speed'\?$"):
        ride("home", sped=3)
    with pytest.raises(FrozenInstanceError):
        ride("home")[1].speed = 4  # type: ignore[misc]


def test_a_deprecated_keyword_works_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ride, "formerly", {"pace": "speed"})

    @takes_options
    def go(how: Ride = Ride()) -> int:  # noqa: B008
        return how.speed

    with pytest.warns(DeprecationWarning, match="pace= is deprecated: use speed="):
        assert go(pace=5) == 5


def test_the_docstring_lists_what_can_be_set() -> None:
    assert "speed: How fast." in (Ride.__doc__ or "")


def test_messages_name_flags_only_while_a_command_runs_and_only_its_own() -> None:
    with in_flags({"speed": "--speed"}):
        assert option("speed", 3) == "--speed 3"
        assert option("way", "road") == "way='road'"
        with in_flags({"way": "--way"}):
            assert option("speed", 3) == "speed=3"
        assert option("speed") == "--speed"
    assert option("speed") == "speed="
    with pytest.raises(ValueError, match="oops"), in_flags({"speed": "--speed"}):
        raise ValueError("oops")
    assert option("speed") == "speed="


def test_a_command_does_not_change_messages_of_other_threads() -> None:
    found = []
    with in_flags({"speed": "--speed"}):
        thread = threading.Thread(target=lambda: found.append(option("speed")))
        thread.start()
        thread.join()
    assert found == ["speed="]
