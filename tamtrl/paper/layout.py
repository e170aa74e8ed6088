"""One grid of cells as Markdown and as LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

DASH = "–"  # a number that isn't known


@dataclass(frozen=True)
class Grid:
    """``columns``: (group, heading) pairs; a group's heading spans its columns, and is empty for the columns that name rows."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]] = field(default_factory=list)


def cell(value: float, form: str = "{:.2f}") -> str:
    return DASH if pd.isna(value) else form.format(value)


def markdown(grid: Grid) -> str:
    header = [" ".join(part for part in column if part) for column in grid.columns]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in grid.rows), ""])


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
    kinds = {"delta": r"$\Delta$"}
    headings = " & ".join(kinds.get(heading, escape(heading)) for _, heading in grid.columns)
    alignment = "".join("r" if group else "l" for group, _ in grid.columns)
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
            *(" & ".join(escape(text) for text in row) + r" \\" for row in grid.rows),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )
