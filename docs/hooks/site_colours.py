"""Code in few colours, so that the words stand out and not the punctuation; by day and by night."""

from __future__ import annotations

from typing import ClassVar

from pygments.style import Style
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, Punctuation, String


class Light(Style):
    """On paper."""

    background_color = "#ffffff"
    styles: ClassVar = {
        Keyword: "#7a4d00",
        Name.Constant: "#7a4d00",
        Name.Decorator: "#7a4d00",
        String: "#00616e",
        Number: "#8a3d00",
        Operator: "#5c6570",
        Operator.Word: "#7a4d00",
        Punctuation: "#5c6570",
        Comment: "#626a75",
        Generic.Prompt: "#626a75",
        Generic.Output: "#5c6570",
    }


class Dark(Style):
    """At night."""

    background_color = "#1c2026"
    styles: ClassVar = {
        Keyword: "#f0b232",
        Name.Constant: "#f0b232",
        Name.Decorator: "#f0b232",
        String: "#6cc9d6",
        Number: "#f0a070",
        Operator: "#a0a8b3",
        Operator.Word: "#f0b232",
        Punctuation: "#a0a8b3",
        Comment: "#98a1ad",
        Generic.Prompt: "#98a1ad",
        Generic.Output: "#a0a8b3",
    }
