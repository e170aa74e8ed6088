"""One grid of cells as Markdown, LaTeX and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape as escape_html
from pathlib import Path

import pandas as pd

from tamtrl import files

DASH = "–"  # a number that isn't known


@dataclass(frozen=True)
class Number:
    """A cell that may be the ``best`` or ``second`` of its column; ``after`` follows unmarked, e.g. an interval."""

    text: str
    after: str = ""
    mark: str = ""


Cell = str | Number


@dataclass(frozen=True)
class Grid:
    """``columns``: (group, heading) pairs; a group's heading spans its columns, and is empty for the columns that name rows.
    ``lines_before``: the numbers of rows that begin a part of their own."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]] = field(default_factory=list)
    lines_before: frozenset[int] = frozenset()


def cell(value: float, form: str = "{:.2f}") -> str:
    return DASH if pd.isna(value) else form.format(value)


def _set(content: Cell, marks: dict[str, str], plain) -> str:
    if isinstance(content, str):
        return plain(content)
    return marks.get(content.mark, "{}").format(plain(content.text)) + plain(content.after)


def markdown(grid: Grid) -> str:
    marks = {"best": "**{}**", "second": "<u>{}</u>"}
    header = [" ".join(part for part in column if part) for column in grid.columns]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    rows = ["| " + " | ".join(_set(content, marks, str) for content in row) + " |" for row in grid.rows]
    return "\n".join([*lines, *rows, ""])


def escape(text: str) -> str:
    for character in "&%#_":
        text = text.replace(character, f"\\{character}")
    return text.replace(DASH, "--")


def latex(grid: Grid, caption: str) -> str:
    """A booktabs table, shrunk to the text's width: it compiles with ``\\usepackage{booktabs,graphicx}``."""
    groups: list[list] = []
    for group, _ in grid.columns:
        if groups and group and groups[-1][0] == group:
            groups[-1][1] += 1
        else:
            groups.append([group, 1])
    spans = " & ".join(f"\\multicolumn{{{n}}}{{c}}{{{escape(group)}}}" if group else "" for group, n in groups)
    kinds, marks = {"delta": r"$\Delta$"}, {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}
    headings = " & ".join(kinds.get(heading, escape(heading)) for _, heading in grid.columns)
    alignment = "".join("r" if group else "l" for group, _ in grid.columns)
    rows = []
    for number, row in enumerate(grid.rows):
        rows += [r"\midrule"] if number in grid.lines_before and number else []
        rows.append(" & ".join(_set(content, marks, escape) for content in row) + r" \\")
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{escape(caption)}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            rf"{spans} \\",
            rf"{headings} \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


HEAD = """<!doctype html><meta charset="utf-8"><style>
body { font: 14px system-ui, sans-serif; margin: 1.5em; } table { border-collapse: collapse; }
th, td { padding: .3em .7em; text-align: left; vertical-align: top; }
thead { border-bottom: 1.5px solid; } tr.part { border-top: 1px solid #999; }
p { max-width: 70em; color: #555; }</style>
"""


def html(grid: Grid, caption: str) -> str:
    """A table for the report's pages."""
    marks = {"best": "<b>{}</b>", "second": "<u>{}</u>"}
    header = "".join(f"<th>{escape_html(' '.join(part for part in column if part))}</th>" for column in grid.columns)
    lines = [f"<table><thead><tr>{header}</tr></thead><tbody>"]
    for number, row in enumerate(grid.rows):
        part = ' class="part"' if number in grid.lines_before and number else ""
        lines.append(f"<tr{part}>" + "".join(f"<td>{_set(content, marks, escape_html)}</td>" for content in row) + "</tr>")
    return "\n".join([*lines, "</tbody></table>", f"<p>{escape_html(caption)}</p>", ""])


@dataclass(frozen=True)
class Section:
    grid: Grid
    caption: str
    title: str = ""
    printed: bool = True  # in LaTeX too


def write(name: str, sections: Sequence[Section], output: Path) -> None:
    """The views of a table, named like ``output``: .md, .html and, of what is ``printed``, .tex."""
    stem = output.with_suffix("")
    texts, tex, pages = [], [], []
    for section in sections:
        heading = f"## {section.title}" if section.title else f"# {name}"
        texts.append(f"{heading}\n\n{markdown(section.grid)}\n{section.caption}\n")
        pages.append(f"<h2>{escape_html(section.title or name)}</h2>\n{html(section.grid, section.caption)}")
        named = f"{name}, {section.title}" if section.title else name
        tex += [latex(section.grid, f"{named}. {section.caption}")] if section.printed else []
    files.write_text(stem.with_suffix(".md"), "\n".join(texts))
    if tex:
        files.write_text(stem.with_suffix(".tex"), "\n".join(tex))
    files.write_text(stem.with_suffix(".html"), HEAD + "\n".join(pages))
