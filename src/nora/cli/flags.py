"""From options to flags: a command whose parameters are options has a flag for each of their fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field, fields
from typing import Annotated, Any, get_type_hints

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
    called = takes_options(command)
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {}
    return called


def _flags(given: Options) -> Iterator[inspect.Parameter]:
    types = get_type_hints(type(given))
    for one in fields(given):  # type: ignore[arg-type]  # options are dataclasses
        yield _flag(one, types[one.name])


def _flag(one: Field[Any], kind: Any) -> inspect.Parameter:
    facts = one.metadata
    names = [f"--{one.name.replace('_', '-')}"] if kind is bool else []
    default = one.default
    if kind == tuple[str, ...]:
        kind, default = list[str] | None, None
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
