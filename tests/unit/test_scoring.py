"""Expected values: the vectors that define the verifier and the official scorers, and by hand."""

import time

import pytest

from tamtrl.answers import scoring, verifier


@pytest.mark.parametrize(
    ("response", "answers", "expected"),
    [
        (r"\boxed{New York}", ["new york"], 1),
        (r"\boxed{NewYork}", ["New York"], 1),  # spaces are removed on both sides
        (r"\boxed{The Beatles}", ["Beatles"], 0),  # articles are not forgiven
        (r"\boxed{Beatles.}", ["Beatles"], 0),  # nor punctuation
        (r"\boxed{1,000}", ["1000"], 0),
        (r"\boxed Paris", ["paris"], 1),
        (r"\boxed{Paris", ["Paris"], 0),  # never closed
        ("Paris", ["Paris"], 0),  # no box
        (r"\fbox{Paris}", ["Paris"], 0),
        (r"\boxed{Rome} or rather \boxed{Paris}", ["Paris"], 1),  # the last box counts
        (r"\boxed{Paris} or rather \boxed{Rome}", ["Paris"], 0),
        (r"\boxed{b}", ["a", "b"], 1),  # any gold answer
        (r"\boxed{Paris}" + 400 * "x", ["Paris"], 0),  # only the last 300 characters
        (r"\boxed{\text{Paris}}", ["Paris"], 0),
        (r"\boxed{f{x}y}", ["f{x}y"], 1),  # balanced braces
        (r"\boxed{}", [""], 0),  # an empty box is never right
        (r"\boxed{Paris}", ["", "Paris"], 1),
        ("", ["Paris"], 0),
        ("\\boxed", ["Paris"], 0),
    ],
)
def test_outcome(response, answers, expected):
    assert verifier.outcome(response, answers) == expected


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "f1"),
    [
        ("the  Eiffel Tower.", "Eiffel tower", 1, 1),
        ("Norway", "no", 0, 0),
        ("Yes, they are.", "yes", 0, 0),  # yes/no only matches itself
        ("no", "No.", 1, 1),
        ("U.S.", "US", 1, 1),
        ("1,000", "1000", 1, 1),
        ("twenty-one", "twenty one", 0, 0),
        ("O'Donnell", "O’Donnell", 0, 0),  # only ASCII punctuation goes
        ("a red car", "red fast car", 0, 0.8),  # shared 2 of 2 and of 3: 2 * 1 * (2/3) / (5/3)
        ("", "yes", 0, 0),
        ("The.", "Paris", 0, 0),
        ("The", "The The", 0, 0),  # both normalise to nothing, and differ
        ("the", "The", 1, 0),  # both normalise to nothing, and are equal; F1 counts tokens, of which there are none
        (" !!! ", "!!!", 1, 0),
        ("", "", 0, 0),
        (" ", "The", 0, 0),
    ],
)
def test_exact_match_and_f1(prediction, gold, em, f1):
    assert scoring.exact_match(prediction, [gold]) == em
    assert scoring.f1(prediction, [gold]) == pytest.approx(f1)


# Official scorers run on these pairs: EM (HotpotQA's), F1 of HotpotQA, of MuSiQue (SQuAD 2.0), of LongBench (SQuAD 1.1), and
# RULER's string_match_part. They disagree with each other where the columns differ.
OFFICIAL = [
    ("", "yes", 0, 0, 0, 0, 0),
    ("The.", "Paris", 0, 0, 0, 0, 0),
    ("Norway", "no", 0, 0, 0, 0, 1),
    ("Pari", "Paris", 0, 0, 0, 0, 0),
    ("Yes, they are.", "yes", 0, 0, 0.5, 0.5, 1),
    ("The", "The The", 1, 0, 1, 0, 0),
    ("A", "A", 1, 0, 1, 0, 1),
    ("no", "No.", 1, 1, 1, 1, 0),
    ("U.S.", "US", 1, 1, 1, 1, 0),
    ("1,000", "1000", 1, 1, 1, 1, 0),
    ("twenty-one", "twenty one", 0, 0, 0, 0, 0),
    ("1982-1984", "1982–1984", 0, 0, 0, 0, 0),
    ("Małgorzata", "Malgorzata", 0, 0, 0, 0, 0),
]


@pytest.mark.trap(12, 13)
@pytest.mark.parametrize(("prediction", "gold", "em", "hotpotqa", "musique", "squad", "ruler"), OFFICIAL)
def test_official_scorers(prediction, gold, em, hotpotqa, musique, squad, ruler):
    assert scoring.f1(prediction, [gold], "hotpotqa") == pytest.approx(hotpotqa)
    assert scoring.f1(prediction, [gold], "musique") == pytest.approx(musique)
    assert scoring.f1(prediction, [gold], "squad") == pytest.approx(squad)
    assert scoring.ruler_part(prediction, [gold]) == ruler
    # the one place where we leave the official scorer: different texts that normalise to nothing don't match
    differ = (prediction, gold) == ("The", "The The")
    assert scoring.exact_match(prediction, [gold]) == (0 if differ else em)


@pytest.mark.trap(11, 12)
@pytest.mark.parametrize(
    ("prediction", "answers", "mode", "expected", "literal"),
    [
        ("It was the University of Toronto.", ["University of Toronto", "UT"], "alternatives", 1, 0.5),
        ("only 1234567", ["1234567", "7654321"], "conjunctive", 0.5, 0.5),
        ("1234567 and 7654321", ["1234567", "7654321"], "conjunctive", 1, 1),
        ("Pari", ["Paris"], "alternatives", 0, 0),  # one way: the prediction in the gold answer does not count
        ("", ["Paris"], "alternatives", 0, 0),
        ("The", ["The The"], "alternatives", 0, 0),  # an empty text is contained in nothing
        ("Paris", ["the"], "conjunctive", 0, 0),
        ("the", ["The"], "alternatives", 1, 1),  # where EM is 1, sub_em is
        ("Paris", ["", " "], "conjunctive", 0, 0),  # no gold answer at all
        ("Paris", ["Paris", "", "paris."], "conjunctive", 1, 1),  # one, not three
    ],
)
def test_sub_em(prediction, answers, mode, expected, literal):
    assert scoring.sub_em(prediction, answers, mode) == expected
    assert scoring.sub_em(prediction, answers, mode, literal=True) == literal


def test_the_papers_score_is_exact_match_or_sub_em():
    two = ["University of Toronto", "UT"]
    assert scoring.paper_score("the University of Toronto", two[:1], "alternatives") == 1
    assert scoring.paper_score("at the University of Toronto", two[:1], "alternatives") == 0
    assert scoring.paper_score("at the University of Toronto", two, "alternatives") == 1
    assert scoring.paper_score("at the University of Toronto", two, "alternatives", literal=True) == 0.5


@pytest.mark.trap(11)
def test_ruler_all():
    assert scoring.ruler_all("1234567", ["1234567", "7654321"]) == 0.5


@pytest.mark.trap(13)
def test_maximum_over_answers():
    assert scoring.exact_match("UT", ["University of Toronto", "UT"]) == 1
    assert scoring.f1("University", ["UT", "University of Toronto"]) == pytest.approx(0.5)


def test_answer_extraction():
    assert scoring.extract_answer(r"So \boxed{ Paris }.") == "Paris"
    assert scoring.extract_answer("First line\nParis\n") == "Paris"
    assert scoring.extract_answer("") == ""


PLAIN = [
    (r"\text{Paris}", "Paris"),
    (r"\textbf{Paris}", "Paris"),
    (r"\textit{Paris}", "Paris"),
    (r"\mathrm{Paris}", "Paris"),
    (r"\mathbf{Paris}", "Paris"),
    (r"\emph{Paris}", "Paris"),
    (r"\mbox{Paris}", "Paris"),
    (r"\operatorname*{Paris}", "Paris"),
    (r"\text {Paris}", "Paris"),
    (r"\\text{Paris}", "Paris"),  # escaped twice
    (r"{\bf Paris}", "Paris"),
    (r"\text{\textbf{Paris}}", "Paris"),
    (r"\text{a {b} \emph{c}} d", "a {b} c d"),
    (r"\text{New} \text{York}", "New York"),
    ("New~York", "New York"),
    (r"Dr.~Who~(1963)", "Dr. Who (1963)"),
    (r"New\ York", "New York"),
    (r"New\,York\;City\quad USA", "New York City  USA"),
    (r"10\,000\,km", "10000 km"),  # one number, as 10,000 is after normalisation
    (r"10,\!000", "10,000"),
    (r"AT\&T 5\% \$5 \#1 a\_b \{c\}", "AT&T 5% $5 #1 a_b {c}"),
    # not LaTeX, and left
    ("AT&T 5% $5 #1 a_b {c}", "AT&T 5% $5 #1 a_b {c}"),
    (r"C:\text\mbox.exe", r"C:\text\mbox.exe"),
    (r"Alzheimer\'s, Espa\~na", r"Alzheimer\'s, Espa\~na"),
    ("example.org/~bob", "example.org/~bob"),
    ("5~10 km", "5~10 km"),
    ("~~Rome~~", "~~Rome~~"),
    (r"\text{Paris", r"\text{Paris"),  # never closes
    (r"\textcolor{red}{Paris}", r"\textcolor{red}{Paris}"),
]


@pytest.mark.parametrize(("typeset", "plain"), PLAIN)
def test_typeset_answers(typeset, plain):
    if typeset.count("{") == typeset.count("}"):  # else the box would not close either
        assert scoring.extract_answer(rf"So \boxed{{{typeset}}}.") == plain
    assert scoring.extract_answer(f"First line\n{typeset}\n") == plain


@pytest.mark.parametrize(
    "response",
    [r"\boxed{\text{New York}}", r"\boxed{\mathbf{New}~\mathbf{York}}", r"\boxed{New\ York}", r"\boxed{New\,York}",
     # these need no unwrapping: normalisation deletes the signs
     r"\boxed{$\text{New York}$}", r"\boxed{**New York**}", "**New York**", r"\boxed{`New York`}", r"\boxed{_New York_}",
     r"$\boxed{\text{New York}}$"],
)  # fmt: skip
def test_typeset_answers_are_right_and_not_for_the_verifier(response):
    got = scoring.all_metrics(response, ["New York"], "alternatives", "hotpotqa")
    strict = got.pop("strict")
    assert set(got.values()) == {1} and strict == 0


def test_every_metric_of_a_response():
    """``strict`` reads the response, and any gold answer will do, whatever the mode."""
    got = scoring.all_metrics(r"\boxed{1234567}", ["1234567", "7654321"], "conjunctive", "squad")
    assert got == {
        "score": 0.5, "score_literal": 0.5, "strict": 1, "em": 1, "f1": 1, "sub_em": 0.5, "sub_em_literal": 0.5, "ruler_part": 1,
        "ruler_all": 0.5,
    }  # fmt: skip
    # no box: the last line is the answer of all but the verifier
    got = scoring.all_metrics("It is\nParis", ["Paris"], "alternatives", "hotpotqa")
    assert got.pop("strict") == 0 and set(got.values()) == {1}
    # a box that 300 characters follow
    assert scoring.all_metrics(r"\boxed{Paris}" + 300 * "x", ["Paris"], "alternatives", "hotpotqa")["strict"] == 0


@pytest.mark.trap(12)
@pytest.mark.parametrize("rule", scoring.F1_RULES)
@pytest.mark.parametrize("mode", ["alternatives", "conjunctive"])
@pytest.mark.parametrize("answers", [["Paris"], [""], ["", " "], ["The"], ["!!!", "Paris"], ["The", ""], []])
@pytest.mark.parametrize("response", ["", " \n ", r"\boxed{}", r"\boxed{ }", r"\boxed{\text{ }}", r"\boxed{~}"])
def test_an_empty_answer_is_wrong_for_every_metric(response, answers, mode, rule):
    assert set(scoring.all_metrics(response, answers, mode, rule).values()) == {0}


@pytest.mark.trap(12)
@pytest.mark.parametrize("rule", scoring.F1_RULES)
@pytest.mark.parametrize("response", ["Rome", r"\boxed{!!!}", r"\boxed{The}"])
def test_an_empty_gold_answer_is_none(response, rule):
    """It matches nothing, and the other gold answer stays a single one."""
    assert set(scoring.all_metrics(response, ["", " "], "alternatives", rule).values()) == {0}
    for answers in (["Paris"], ["Paris", ""], ["", "Paris", " "]):
        got = scoring.all_metrics("It is Paris", answers, "conjunctive", rule)
        assert (got["score"], got["score_literal"], got["sub_em"], got["ruler_all"]) == (0, 0, 1, 1)


@pytest.mark.trap(12)
@pytest.mark.parametrize(
    ("answers", "several"),
    [
        (["English"], False),
        (["English", "English "], False),
        (["English", "english", "The English."], False),  # neither EM nor sub_em tells them apart
        (["English", ""], False),
        (["The", "the"], False),
        (["English", "The"], True),
        (["University of Toronto", "UT"], True),
    ],
)
def test_gold_answers_that_compare_alike_are_one(answers, several):
    """With one, ``score`` is EM, which a sentence fails; with several sub_em, which it passes."""
    assert scoring.paper_score(f"It is {answers[0].strip()} here", answers, "alternatives") == several
    assert len(scoring.distinct(answers)) == 1 + several


@pytest.mark.parametrize(
    ("boxed", "gold"),
    [
        (r"\text{Paris},\quad\text{France}", "Paris, France"),
        (r"\text{Paris}\\\text{France}", "Paris France"),
        ("1995~present", "1995~present"),  # a gold answer word for word, whatever it looks like
        (r"\emph{BERT}", r"\emph{BERT}"),
    ],
)
def test_an_answer_as_it_is_meant_or_as_it_is_written(boxed, gold):
    values = scoring.all_metrics(rf"\boxed{{{boxed}}}", [gold], "alternatives", "squad")
    assert values["em"] == values["sub_em"] == values["f1"] == 1


@pytest.mark.parametrize("text", ["\\" * 40_000, r"\text{" * 6000, r"\text{" * 4000 + "}" * 4000])
def test_much_nonsense_is_read_quickly(text):
    begun = time.monotonic()
    for response in (text, rf"\boxed{{{text}}}"):
        assert scoring.all_metrics(response, ["Paris"], "alternatives", "squad")["em"] == 0
    assert time.monotonic() - begun < 5
