"""What figures have in common: one look a method, labels at the ends of lines, the files of a figure."""

import re
import sys
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pandas as pd

from tamtrl import files, frames
from tamtrl.paper.markup import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Method (and variant): colour, dashes, marker; the same in every figure. Others take what is left, in order.
LOOKS = {
    "base": ("#7F7F7F", (0, (1, 1)), "x"),
    "sft": ("#56B4E9", (0, (5, 1)), "v"),
    "star": ("#CC79A7", (0, (3, 1, 1, 1)), "*"),
    "vanilla_kd": ("#999933", (0, (1, 2)), "P"),
    "memagent": ("#0072B2", (0, (4, 1.5)), "s"),
    "llm_judge": ("#E69F00", (0, (1, 1)), "^"),
    "prm": ("#009E73", (0, (3, 1, 1, 1)), "D"),
    "tamtrl": ("#D55E00", "solid", "o"),
    "tamtrl (turn_group)": ("#000000", (0, (6, 1, 1, 1)), "h"),
}
# Asked, where they are installed, for characters that the first font doesn't have. matplotlib can't draw fonts in colour.
FURTHER_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Malgun Gothic", "Noto Emoji", "Symbola",
)  # fmt: skip
MISSING = r"Glyph (\d+) .*missing from"
SPARE = (("#882255", (0, (2, 1)), "<"), ("#44AA99", (0, (7, 2)), ">"), ("#332288", (0, (1, 3)), "p"))


def looks(names: Sequence[str]) -> dict[str, dict]:
    """Keyword arguments of matplotlib's lines, by name."""
    others = [name for name in names if name not in LOOKS]
    chosen = LOOKS | {name: SPARE[number % len(SPARE)] for number, name in enumerate(others)}
    return {name: dict(zip(("color", "linestyle", "marker"), chosen[name], strict=True)) for name in names}


def pyplot() -> ModuleType:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns
    from matplotlib import font_manager

    sns.set_theme(context="paper", style="ticks")
    plt.style.use(Path(__file__).with_name("tamtrl.mplstyle"))
    installed = {font.name for font in font_manager.fontManager.ttflist}
    plt.rcParams["font.family"] = ["sans-serif", *(name for name in FURTHER_FONTS if name in installed)]
    warnings.filterwarnings("ignore", MISSING)  # at each drawing; `save` says it once
    return plt


def lines(axis: "Axes", data: pd.DataFrame, x: str, y: str, by: str, low: str = "", high: str = "", markers: bool = True) -> None:
    """A line for each value of ``by``, named at its right end. The band is ``low`` to ``high`` where given, else the range
    over seeds where there are several."""
    names = list(dict.fromkeys(data[by]))
    ends = []
    for name, look in looks(names).items():
        part = data[data[by] == name]
        mean = part.groupby(x, dropna=False)[y].mean()
        band = part.groupby(x, dropna=False)[[low or y, high or y]].agg({low: "mean", high: "mean"} if low else ["min", "max"])
        axis.plot(mean.index, mean.to_numpy(), **look | ({} if markers else {"marker": ""}))
        if low or (band.iloc[:, 0] < band.iloc[:, 1]).any():
            axis.fill_between(band.index, band.iloc[:, 0], band.iloc[:, 1], color=look["color"], alpha=0.12, linewidth=0)
        ends.append((name, mean.index[-1], mean.values[-1], look["color"]))
    name_ends(axis, ends)


def name_ends(axis: "Axes", ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Names beside the last points, moved apart where they would overlap. ``ends``: name, x, y, colour."""
    figure = axis.figure
    figure.canvas.draw()  # fixes the limits
    inches = axis.get_window_extent().height / figure.dpi
    bottom, top = axis.get_ylim()
    apart = (top - bottom) * 0.145 / inches  # a line of small print
    heights = spread([end[2] for end in ends], apart, bottom, top)
    right = max((end[1] for end in ends), default=0)
    for (name, _, y, colour), height in zip(ends, heights, strict=True):
        axis.annotate(
            name, (right, y), xytext=(1.06, (height - bottom) / (top - bottom)), textcoords="axes fraction", color=colour,
            fontsize="small", va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.4, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2},
        )  # fmt: skip
    axis.set_ylim(bottom, top)


def spread(values: Sequence[float], apart: float, bottom: float, top: float) -> list[float]:
    """Heights near ``values``, in the same order, at least ``apart`` from each other and as far within bottom and top as
    they fit."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    heights: list[float] = []
    for index in order:
        heights.append(max(values[index], heights[-1] + apart) if heights else max(values[index], bottom))
    excess = max(0.0, heights[-1] - top) if heights else 0.0
    limit = heights[-1] - excess if heights else 0.0
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], limit)
        limit = heights[place] - apart
    result = [0.0] * len(values)
    for index, height in zip(order, heights, strict=True):
        result[index] = height
    return result


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns, cut at spaces, and anywhere beside a wide character (Chinese, Japanese, emoji), which
    takes two."""
    lines, line, taken = [], "", 0
    for word in _unbroken(one_line(text), width):
        columns = sum(map(_columns, word))
        if taken and taken + columns - word.endswith(" ") > width:
            lines.append(line.rstrip())
            line, taken = "", 0
        line, taken = line + word, taken + columns
    return [*lines, line.rstrip()] if line else lines


def _columns(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _unbroken(text: str, width: int) -> list[str]:
    """The pieces of a text between which a line may end, each with the space after it; one that is too long is cut."""
    pieces = [""]
    for char in text:
        before = pieces[-1]
        wide = before and 2 in (_columns(char), _columns(before[-1]))
        full = sum(map(_columns, before)) + _columns(char) > width
        if char != " " and before and (before[-1] == " " or wide or full):
            pieces.append("")
        pieces[-1] += char
    return pieces if text else []


def titled(figure: "Figure", title: str, width: float = 7.2) -> "Figure":
    if lines := wrapped(title, int(13 * width)):
        figure.suptitle("\n".join(lines), fontsize="small", color="0.35")
    return figure


def save(data: pd.DataFrame, figure: "Figure", output: Path) -> None:
    """The drawn data as CSV, and the figure as SVG and PNG, all named like ``output``."""
    stem = output.with_suffix("")
    frames.write(data, stem.with_suffix(".csv"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", MISSING)
        for suffix in (".svg", ".png"):
            with files.whole(stem.with_suffix(suffix)) as temporary:
                # No date inside: the same data give the same file.
                figure.savefig(temporary, metadata={"Date": None} if suffix == ".svg" else None)
    lacking = {}
    for one in caught:
        if found := re.match(MISSING, str(one.message)):
            lacking[chr(int(found[1]))] = True
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if lacking:
        told = f"{output.name}: no font here has {''.join(lacking)}; the PNG has boxes, the SVG the text (docs/data.md)."
        print(told, file=sys.stderr)
