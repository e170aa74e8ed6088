"""What the answers of a judge and of a process reward model mean, and which mean nothing."""

import pytest

from tamtrl.turn_scores import grades, judge, prm


def chat(content) -> dict:
    return {"choices": [{"message": {"content": content}}]}


@pytest.mark.trap(23)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"score": 7}', 7),
        (' {"score":10}\n', 10),
        ('{"score": 0}', 0),
        ('{"score": 7.0}', 7),
        ('{"score": "7"}', 7),
        ('{"score": "7/10"}', 7),
        ('{"score": " 10 / 10 "}', 10),
        ('{"reason": "3/10 of it is lost", "score": 7}', 7),
        ("7", 7),
        ("10", 10),
        ('"7"', 7),
        ("7.00", 7),
        ("7/10\n", 7),
        ("7.0/10", 7),
        ('```json\n{"score": 7}\n```', 7),
        ('```\n{"score": 7}\n```\n', 7),
        ("```JSON\n7\n```", 7),
        ('{"score": 7, "reason": "```json\\n{\\"score\\": 3}\\n```"}', 7),
        ('<think>Perhaps {"score": 3}, 4/10.</think>{"score": 7}', 7),
        ('<think>\n\n</think>\n\n```json\n{"score": 7}\n```', 7),
        ("the template began the thought </think> 7/10", 7),
    ],
)
def test_grades(content, expected):
    assert grades.grade(content) == expected and judge.score(chat(content)) == expected / 10


NO_GRADES = [
    "good", "", "```json\n```", "score: 7", "Score: 7/10", "I'd give 7/10", "7/10 because 3/10 of it is lost", "7 points",
    "seven", "10 facts were lost", "7.", "7 10", "7/10 8/10", "**7**", "７", "+7", "-1", "11", "07", "7.5", "7/9", "70/100",
    "7/1", "0.7", '{"score": 11}', '{"score": -1}', '{"score": 7.5}', '{"score": 1e1}', '{"score": true}',
    '{"score": null}', '{"score": NaN}',
    "{}", "[7]", "true", "null", "NaN", "Infinity", '{"score": Infinity}', '{"score": 1e999}', '{"score": "seven"}',
    '{"score": "7/9"}', '{"Score": 7}', '{"score": "7 of 10"}', '{"score": [7]}', '{"score": {"value": 7}}',
    '{"score": 7, "score": 3}', '{"score": 7}{"score": 7}', '{"score": 7} or {"score": 3}', '{"score": 7',
    'My grade: {"score": 7}', '{"score": 7} is my grade', '```json\n{"score": 7}', 'My grade:\n```json\n{"score": 7}\n```',
    '```json\n{"score": 7}\n```\n```json\n{"score": 3}\n```', '```python\n{"score": 7}\n```', '<think>{"score": 7}',
    '{"score": 7}</think>', '{"score": 7}<think>', "[" * 100_000, "9" * 5000, '{"score": ' + "9" * 5000 + "}", None, 7, 7.0,
    True, ["7"], {"score": 7}, [{"type": "text", "text": "7"}],
]  # fmt: skip


@pytest.mark.trap(23)
@pytest.mark.parametrize("content", NO_GRADES, ids=lambda content: repr(content)[:40])
def test_what_is_no_grade(content):
    with pytest.raises(ValueError) as refused:
        judge.score(chat(content))
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize(
    "reply",
    [{}, [], None, "7", 7, {"choices": []}, {"choices": None}, {"choices": {"0": 1}}, {"choices": ["7"]}, {"choices": [{}]},
     {"choices": [{"message": None}]}, {"choices": [{"text": "7"}]}, {"choices": chat("7")["choices"] * 2}],
)  # fmt: skip
def test_what_is_no_reply_of_a_judge(reply):
    with pytest.raises(ValueError, match="not one choice with a message"):
        judge.score(reply)


def test_a_number_that_was_cut_off_is_no_grade():
    """1 may be the beginning of 10; an object is whole or isn't one."""

    def cut(content):
        return {"choices": [{"message": {"content": content}, "finish_reason": "length"}]}

    for content in ("1", "7", "7/10", "<think>hm</think>1"):
        with pytest.raises(ValueError, match="may be cut off"):
            judge.score(cut(content))
    assert judge.score(cut('{"score": 7}')) == 0.7


@pytest.mark.parametrize("probability", [0.25, 0, 1, 1.0])
def test_probabilities(probability):
    assert prm.score({"data": [{"probs": [probability]}]}) == probability


@pytest.mark.parametrize(
    "probs",
    [[0.25, 0.75], [], None, 0.25, "0", ["0.25"], [None], [True], [float("nan")], [float("inf")], [-0.1], [1.1], [[0.25]],
     {"a": 0.25}],
)  # fmt: skip
def test_what_is_no_probability(probs):
    """A classifier of two classes, say, is not ours."""
    with pytest.raises(ValueError):
        prm.score({"data": [{"probs": probs}]})


@pytest.mark.parametrize(
    "reply",
    [{}, [], None, {"data": []}, {"data": None}, {"data": [{}]}, {"data": [None]}, {"data": "0.25"},
     {"data": [{"probs": [0.25]}] * 2}, {"error": {"message": "no"}}],
)  # fmt: skip
def test_what_is_no_reply_of_a_process_reward_model(reply):
    with pytest.raises(ValueError, match="not one probability of one input"):
        prm.score(reply)
