"""Anybody's text (a note, a label, names) as plain text of LaTeX, Markdown and HTML. Each language is escaped in one pass."""

import re
import unicodedata
from html import escape

DASH = "–"  # a number that isn't known


def one_line(text: str) -> str:
    """White space of any kind, and control characters, which no page or picture may hold, as single spaces."""
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())


LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\char34{}",  # babel makes it a command in some languages
    "[": "{[}", "*": "{*}",  # at the beginning of a row they would belong to the \\ before
    DASH: "--",
}  # fmt: skip
# The second of two characters that LaTeX would join: -- is a dash, and so on.
JOINED = r"(?<=-)-|(?<=[`?!])`|(?<=')'|(?<=,),"


def latex(text: str) -> str:
    special = re.compile("|".join([*map(re.escape, LATEX), JOINED]))
    return special.sub(lambda found: LATEX.get(found[0], "{}" + found[0]), one_line(text))


def beyond_latin(text: str) -> str:
    """The characters of a text, each once, that LaTeX has only with a font for them: neither Latin nor usual punctuation."""
    return "".join(dict.fromkeys(char for char in text if char > "\u024f" and not "\u2010" <= char <= "\u203a"))


# What begins something wherever it stands, a _ outside of words only, and an & that would be an entity.
MARKDOWN = re.compile(r"[\\`*\[<~|$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


def markdown(text: str) -> str:
    """Within a cell or a heading. Also $ is escaped, between two of which many renderers see mathematics."""
    return MARKDOWN.sub(r"\\\g<0>", one_line(text))


def paragraph(text: str) -> str:
    """Of a text by itself, whose beginning could make it a heading, a quotation, a list or a rule."""
    return re.sub(r"^(\d*)(?=[#>+=.)-])", r"\1\\", markdown(text))


def html(text: str) -> str:
    return escape(one_line(text))


def written(text: str) -> str:
    """Markdown of ours, e.g. a cell of docs/, as HTML: its code spans."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html(text))
