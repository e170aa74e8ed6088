"""Expected values: the vectors that define the verifier and HotpotQA's official evaluation."""

import pytest

from tamtrl import scoring


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
        ("", ["Paris"], 0),
        ("\\boxed", ["Paris"], 0),
    ],
)
def test_outcome(response, answers, expected):
    assert scoring.outcome(response, answers) == expected


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
        ("The", "The The", 0, 0),  # both normalise to nothing, and nothing never matches
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
    # the one place where we leave the official scorer: two texts that normalise to nothing don't match
    nothing = not scoring.normalise_answer(prediction)
    assert scoring.exact_match(prediction, [gold]) == (0 if nothing else em)


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
