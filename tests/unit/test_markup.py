"""Anybody's text reaches figures, LaTeX, Markdown, HTML and commands as plain text."""

import gzip
import html
import json
import re
import shlex
import subprocess
import unicodedata
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
import yaml
from markdown_it import MarkdownIt
from pylatexenc.latex2text import LatexNodes2Text
from snakemake.cli import parse_config

from tamtrl import cli, frames
from tamtrl.paper import figures, markup, memories, records, style, sweeps, tables
from tamtrl.paper.scores import Layout
from tamtrl.workflow import handed_on

# As one line: what figures and tables show of it.
NASTY = (
    r"""-x under $100 (8 % of $1,200) _a_ b_c ^2 {x} #1 & &amp; \frac{a}{b} \\ ~~s~~ `code` *b* **c** |p| <i>"q"</i> """
    "it's [l](u) --o !! a | b \\| 記憶の長さ 中文 🦜 é – end\\"
)
NOTE = NASTY.replace(" under", "\n\nunder\t\r\n").replace(" end", " \x1b\u2028 end")
BEGINNINGS = ["# h", "- i", "+ i", "* i", "1. i", "12) i", "> q", "---", "===", "```", "    code"]
BEGINNINGS += ["| a |", "[a]: b", "<b>", "~~~", "#"]


def rendered(text: str) -> list[str]:
    """The texts of blocks, cells and headings, as GitHub's Markdown shows them, markup between bars."""
    shown = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        if token.type == "inline":
            shown.append("".join(part.content if part.type == "text" else f"|{part.type}|" for part in token.children))
        elif token.type in ("html_block", "code_block", "fence", "hr"):
            shown.append(f"|{token.type}|")
    return shown


def test_one_line():
    assert markup.one_line(NOTE) == NASTY and markup.one_line(" a\x00b ") == "a b" and markup.one_line("\n") == ""


@pytest.mark.parametrize("text", [NOTE, *BEGINNINGS])
def test_markdown(text):
    line = markup.one_line(text)
    blocks = MarkdownIt("commonmark").parse(markup.paragraph(text))
    assert [block.type for block in blocks] == ["paragraph_open", "inline", "paragraph_close"]
    assert rendered(markup.paragraph(text)) == [line]
    assert rendered(f"## a {markup.markdown(text)} b") == [f"a {line} b"]
    cell = markup.markdown(text)
    assert rendered(f"| {cell} | b |\n| --- | --- |\n| {cell} | d |\n") == [line, "b", line, "d"]


def test_markdown_leaves_words_alone():
    assert markup.markdown("llm_judge wo_length_norm 95 % (a) 1.5 & b") == "llm_judge wo_length_norm 95 % (a) 1.5 & b"
    assert markup.markdown(r"_a_ $1 \| &lt;") == r"\_a\_ \$1 \\\| \&lt;" and markup.paragraph("10. a") == r"10\. a"


def test_latex():
    assert markup.latex(r"\{}$&%#_~^<>|") == (
        r"\textbackslash{}\{\}\$\&\%\#\_\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )
    assert markup.latex('[*"–') == r"{[}{*}\char34{}--" and markup.latex("--- `` '' ?`") == "-{}-{}- `{}` '{}' ?{}`"
    assert markup.latex("a\n\nb") == "a b"  # no paragraph within a caption
    # Nothing is a command but these (pdflatex and xelatex were tried by hand), and another's reader sees what was written. It
    # doesn't know some of them.
    escaped = markup.latex(NOTE)
    assert set(re.findall(r"\\([a-z0-9]+|.)", escaped)) == {
        *"{}$&%#_", "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "char34",
    }  # fmt: skip
    for name, character in {"char34": '"', "textless": "<", "textgreater": ">", "textbar": "|", "textasciicircum": "^"}.items():
        escaped = escaped.replace(f"\\{name}{{}}", character)
    read = LatexNodes2Text().latex_to_text(escaped.replace("--", "–", 1))
    assert unicodedata.normalize("NFC", read) == NASTY


def test_html():
    assert html.unescape(markup.html(NOTE)) == NASTY and not set(markup.html(NOTE)) & set("<>\"'")
    assert markup.written(r"a `\b{<c>}` d") == r"a <code>\b{&lt;c&gt;}</code> d"


def test_lines_of_a_title():
    assert style.wrapped("aa bb cc", 5) == ["aa bb", "cc"] and style.wrapped("abcdefg", 3) == ["abc", "def", "g"]
    assert style.wrapped("ab記憶の長さ c", 4) == ["ab記", "憶の", "長さ", "c"] and style.wrapped(" ", 5) == []


def texts(svg) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def runs(tmp_path):
    """A run whose every name is nasty, with all that tables and figures are made from."""
    names = dict(model="模型 $1_2$ |*", method="$m_1$", variant="<v>", seed=0, benchmark="a_$b$ & c")
    frames.write(pd.DataFrame({"document": [0, 1], "id": ["a", "b"], "score": [1, 0], "em": [1, 0]}), tmp_path / "d.csv")
    metrics = {"step": [1, 2], "outcome": [0.25, 0.5], "response_length": [5, 7], "reward_turn_0_other": [0.5, 0.75]}
    frames.write(pd.DataFrame(metrics), tmp_path / "m.csv")
    with gzip.open(tmp_path / "p.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"document": 0, "answers": ["Rome"], "memories": ["Rome"], "tokens": [3, 1]}) + "\n")
    card = {"run": {"method": "m", "note": NOTE}, "code": {}, "versions": {}, "model": "w", "ended": "2026", "seconds": 1,
            "hardware": {"cores": 2, "processor": "p|p", "memory_gib": 1, "gpus": []}}  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(card))
    files = dict(
        documents=tmp_path / "d.csv", metrics=tmp_path / "m.csv", predictions=tmp_path / "p.jsonl.gz", card=tmp_path / "c.json"
    )
    frames.write(pd.DataFrame([names | files | {"value": value, "ours": False} for value in (4, 8)]), tmp_path / "runs.csv")
    frames.write(pd.DataFrame([names | files | {"ours": False}]), tmp_path / "run.csv")
    return tmp_path / "runs.csv", tmp_path / "run.csv"


@pytest.mark.parametrize("figure", ["dynamics", "turn_rewards", "survival", "sweep", "calibration"])
def test_figures(runs, figure, tmp_path, capsys):
    several, one = runs
    output = tmp_path / "f.csv"
    if figure == "sweep":
        sweeps.draw({"varied_$x$": (several, "Paragraphs_$y$")}, Layout(["a_$b$ & c"]), NOTE, output)
    elif figure == "survival":
        memories.draw(one, False, NOTE, output)
    elif figure == "calibration":
        (tmp_path / "report.json").write_text('{"accuracy": 0.5, "auroc": 0.75}')
        (tmp_path / "prm.yaml").write_text("seed: 0\n")
        bins = {"bin": [0, 9], "turns": [3, 4], "probability": [0.05, 0.95], "share_correct": [0.0, 1.0]}
        frames.write(pd.DataFrame(bins), tmp_path / "calibration.csv")
        figures.calibration([tmp_path], NOTE, output)
    else:
        getattr(figures, figure)(one, NOTE, output)
    shown = texts(tmp_path / "f.svg")
    assert "".join(shown).replace(" ", "").count(NASTY.replace(" ", "")) == 1
    if figure != "calibration":
        assert any("模型 $1_2$ |*" in text for text in shown) and any(text.startswith("$m_1$") for text in shown)
    if figure == "sweep":
        assert {"模型 $1_2$ |*: varied_$x$", "Paragraphs_$y$", "a_$b$ & c (score, %)"} <= set(shown)
    assert (tmp_path / "f.png").stat().st_size > 10_000
    # said once, in one line, where no font has them; matplotlib's own warnings would be one for each
    told = capsys.readouterr().err
    assert told == "" or re.fullmatch(r"f.csv: no font here has [^;a-z]*🦜?[^;a-z]*; the PNG has boxes, .*\n", told)


def test_tables_cards_and_choices(runs, tmp_path):
    (tmp_path / "paper.csv").write_text("model,method,variant,benchmark,metric,value,source\n")
    (tmp_path / "choices.md").write_text("| q | h | k | e |\n| --- | --- | --- | --- |\n| what `x` | here | `a.b` | *ours* |\n")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"a": {"b": "|*x*|"}}))
    common = ["--note=" + NOTE, "--output"]
    verbs = {
        "table": ["t_1", "--paper", "paper.csv", "--runs", "run.csv", "--columns", "a_$b$ & c"],
        "run-cards": ["--runs", "run.csv"],
        "open-choices": ["--choices", "choices.md", "--config", "config.yaml"],
    }
    for verb, arguments in verbs.items():
        words = [str(tmp_path / word) if (tmp_path / word).exists() else word for word in arguments]
        assert cli.main([verb, *words, *common, str(tmp_path / f"{verb}.csv")]) == 0
        shown = rendered((tmp_path / f"{verb}.md").read_text())
        assert any(text.endswith(NASTY) for text in shown), shown
        page = (tmp_path / f"{verb}.html").read_text()
        assert NASTY in html.unescape(page) and "<i>" not in page
    shown = rendered((tmp_path / "table.md").read_text())
    assert "模型 $1_2$ |*" in shown and "$m_1$ (<v>)" in shown and "a_$b$ & c reproduced" in shown and "t_1" in shown
    tex = (tmp_path / "table.tex").read_text()
    assert r"模型 \$1\_2\$ \textbar{}{*} & \$m\_1\$ (\textless{}v\textgreater{}) & 50.00 [" in tex
    assert (
        tex.startswith("% For XeLaTeX or LuaLaTeX, with a font (fontspec, xeCJK) that has 記憶の長さ中文🦜模型\n")
        and NASTY not in tex
    )
    assert "2 cores p|p, 1 GiB" in rendered((tmp_path / "run-cards.md").read_text())
    shown = rendered((tmp_path / "open-choices.md").read_text())
    # what docs/choices.md says is Markdown and stays so; a configuration's value isn't
    assert (
        'a.b = "|*x*|"' in shown
        and "what |code_inline|" in shown
        and "what <code>x</code>" in (tmp_path / "open-choices.html").read_text()
    )
    tables.write("t", tmp_path / "paper.csv", None, Layout(), tmp_path / "plain.csv")
    assert (tmp_path / "plain.tex").read_text().startswith(r"\begin{table}")
    assert records.DASH == "–"


def test_what_snakemake_hands_on():
    """Through the shell, and through one more as SLURM's plugin does it: between double quotes, with those inside escaped."""
    given = {
        "note": NOTE,
        "label": "100",
        "select": {"model": ["0.6B", "it's $x"], "variant": []},
        "data_seed": 5,
        "archive": None,
    }
    words = handed_on.arguments(given)
    assert parse_config(shlex.split(" ".join(words))) == given
    inner = " ".join(words).replace('"', '\\"')
    again = subprocess.run(["sh", "-c", f'printf %s "{inner}"'], capture_output=True, text=True, check=True).stdout
    assert parse_config(shlex.split(again)) == given and handed_on.arguments(parse_config(shlex.split(again))) == words
