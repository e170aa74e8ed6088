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


def test_maximum_over_answers():
    assert scoring.exact_match("UT", ["University of Toronto", "UT"]) == 1
    assert scoring.f1("University", ["UT", "University of Toronto"]) == pytest.approx(0.5)


def test_answer_extraction():
    assert scoring.extract_answer(r"So \boxed{ Paris }.") == "Paris"
    assert scoring.extract_answer("First line\nParis\n") == "Paris"
    assert scoring.extract_answer("") == ""
