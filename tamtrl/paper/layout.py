"""One grid of cells as Markdown, LaTeX and HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from tamtrl import files
from tamtrl.paper import markup
from tamtrl.paper.markup import DASH


@dataclass(frozen=True)
class Number:
    """A cell that may be the ``best`` or ``second`` of its column; ``after`` follows unmarked, e.g. an interval."""

    text: str
    after: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Written:
    """A cell of Markdown of ours; a ``str`` is anybody's plain text, and is escaped."""

    markdown: str


Cell = str | Number | Written


@dataclass(frozen=True)
class Grid:
    """``columns``: (group, heading) pairs; a group's heading spans its columns, and is empty for the columns that name rows.
    ``lines_before``: the numbers of rows that begin a part of their own."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]] = field(default_factory=list)
    lines_before: frozenset[int] = frozenset()


def cell(value: float, form: str = "{:.2f}") -> str:
    return DASH if pd.isna(value) else form.format(value)


def _set(content: Cell, marks: dict[str, str], plain: Callable[[str], str], written: Callable[[str], str]) -> str:
    if isinstance(content, Number):
        return marks.get(content.mark, "{}").format(content.text) + content.after
    return plain(content) if isinstance(content, str) else written(content.markdown)


def markdown(grid: Grid) -> str:
    marks = {"best": "**{}**", "second": "<u>{}</u>"}
    header = [markup.markdown(" ".join(part for part in column if part)) for column in grid.columns]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    rows = ["| " + " | ".join(_set(content, marks, markup.markdown, str) for content in row) + " |" for row in grid.rows]
    return "\n".join([*lines, *rows, ""])


def latex(grid: Grid, caption: str) -> str:
    """A booktabs table, shrunk to the text's width: it compiles with ``\\usepackage{booktabs,graphicx}``."""
    groups: list[list] = []
    for group, _ in grid.columns:
        if groups and group and groups[-1][0] == group:
            groups[-1][1] += 1
        else:
            groups.append([group, 1])
    spans = " & ".join(f"\\multicolumn{{{n}}}{{c}}{{{markup.latex(group)}}}" if group else "" for group, n in groups)
    kinds, marks = {"delta": r"$\Delta$"}, {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}
    headings = " & ".join(kinds.get(heading, markup.latex(heading)) for _, heading in grid.columns)
    alignment = "".join("r" if group else "l" for group, _ in grid.columns)
    rows = []
    for number, row in enumerate(grid.rows):
        rows += [r"\midrule"] if number in grid.lines_before and number else []
        rows.append(" & ".join(_set(content, marks, markup.latex, markup.latex) for content in row) + r" \\")
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{markup.latex(caption)}}}",
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
    header = "".join(f"<th>{markup.html(' '.join(part for part in column if part))}</th>" for column in grid.columns)
    lines = [f"<table><thead><tr>{header}</tr></thead><tbody>"]
    for number, row in enumerate(grid.rows):
        part = ' class="part"' if number in grid.lines_before and number else ""
        cells = (_set(content, marks, markup.html, markup.written) for content in row)
        lines.append(f"<tr{part}>" + "".join(f"<td>{content}</td>" for content in cells) + "</tr>")
    return "\n".join([*lines, "</tbody></table>", f"<p>{markup.html(caption)}</p>", ""])


@dataclass(frozen=True)
class Section:
    grid: Grid
    caption: str
    title: str = ""
    printed: bool = True  # in LaTeX too


def _needs(tex: str) -> str:
    """A comment for a text that pdfLaTeX can't set."""
    beyond = markup.beyond_latin(tex)
    return f"% For XeLaTeX or LuaLaTeX, with a font (fontspec, xeCJK) that has {beyond}\n" if beyond else ""


def write(name: str, sections: Sequence[Section], output: Path) -> None:
    """The views of a table, named like ``output``: .md, .html and, of what is ``printed``, .tex."""
    stem = output.with_suffix("")
    texts, tex, pages = [], [], []
    for section in sections:
        heading = f"## {markup.markdown(section.title)}" if section.title else f"# {markup.markdown(name)}"
        texts.append(f"{heading}\n\n{markdown(section.grid)}\n{markup.paragraph(section.caption)}\n")
        pages.append(f"<h2>{markup.html(section.title or name)}</h2>\n{html(section.grid, section.caption)}")
        named = f"{name}, {section.title}" if section.title else name
        tex += [latex(section.grid, f"{named}. {section.caption}")] if section.printed else []
    files.write_text(stem.with_suffix(".md"), "\n".join(texts))
    if tex:
        files.write_text(stem.with_suffix(".tex"), _needs(text := "\n".join(tex)) + text)
    files.write_text(stem.with_suffix(".html"), HEAD + "\n".join(pages))
