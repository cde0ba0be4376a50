"""From options to flags: a command whose parameters are options has a flag for each of their fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from nora.options import Options, in_flags, options_of, takes_options


class Command(TyperCommand):
    """A command, while which messages name flags (`--task link`) in place of parameters (`task='link'`)."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        flags = [(one.name, flag) for one in self.params for flag in one.opts[:1]]
        with in_flags({str(name): flag for name, flag in flags if flag.startswith("--")}):
            return super().invoke(ctx)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer: a flag for each field of its options."""
    groups = options_of(command)
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        flags = _flags(groups[one.name]) if one.name in groups else (one,)
        parameters += [flag.replace(kind=inspect.Parameter.KEYWORD_ONLY) for flag in flags]
    commas = {
        one.name
        for given in groups.values()
        for one in fields(given)  # type: ignore[arg-type]  # options are dataclasses
        if one.metadata.get("commas")
    }
    made = takes_options(command)

    def called(**given: Any) -> None:
        made(**{key: _parted(value) if key in commas else value for key, value in given.items()})

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {}
    return called


def _parted(texts: list[str] | None) -> list[str]:
    """Names, of which each text may hold several.

    >>> _parted(["gcn, sage", "gat"])
    ['gcn', 'sage', 'gat']
    """
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def _flags(given: Options) -> Iterator[inspect.Parameter]:
    types = get_type_hints(type(given))
    for one in fields(given):  # type: ignore[arg-type]  # options are dataclasses
        if one.metadata:
            yield _flag(one, types[one.name])


def _flag(one: Field[Any], kind: Any) -> inspect.Parameter:
    facts = one.metadata
    names = [f"--{one.name.replace('_', '-')}"] if kind is bool else []
    default = one.default
    if kind == tuple[str, ...]:
        kind, default = list[str] | None, None
    elif list[str] in get_args(kind):
        kind = list[str] | None
    elif str in get_args(kind):  # whatever else Python takes, a shell gives text
        kind = str | None
    about = typer.Option(
        *names,
        help=facts["text"],
        metavar=facts["metavar"],
        min=facts["least"],
        max=facts["most"],
        show_default=facts["shown"] or True,
    )
    return inspect.Parameter(
        one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
    )
