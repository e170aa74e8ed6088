"""Answers as models typeset them, back to plain text.

Only what stands around or between the words of an answer. A whole LaTeX reader would take a bare % for a comment, a lone $ for
mathematics and ``\\'s`` for an accent, all of which occur in answers that are not LaTeX.
"""

import re

from tamtrl.answers.verifier import braced

LONGEST = 2000  # characters; a longer answer is none, and the search below takes the square of it
# One or two backslashes: models that were shown escaped strings write two. The opening brace belongs to the command.
_FONTS = re.compile(
    r"\\{1,2}(?:text(?:bf|it|rm|sf|tt|sc|sl|up|md|normal)?|math(?:rm|bf|it|sf|tt|normal)|emph|underline|boldsymbol|bm|operatorname\*?"
    r"|mbox|hbox|fbox)\s*\{|\{\\+(?:bf|it|rm|sf|tt|sc|sl|em)(?:series|shape|family)?\s+"
)
_SPACES = re.compile(r"\\+q?quad(?![A-Za-z])|\\\\(?=\\[a-z]+\s*\{)")
_REPLACED = (
    (re.compile(r"(?<=\d)\\+,(?=\d{3}(?!\d))"), ""),  # 10\,000 is one number
    (re.compile(r"\\+(?:[ ,;:])"), " "),
    (re.compile(r"\\+!"), ""),
    # A tie, unless it is a range (5~10), a user's page (/~bob) or an accent (\~n).
    (re.compile(r"(?<![/~\\])~(?!~|(?<=\d~)\d)"), " "),
    (re.compile(r"\\+([&%$#_{}])"), r"\1"),
)


def plain(text: str) -> str:
    """``text`` without font and box commands (nested too), ties and spaces of LaTeX as spaces, escaped signs as themselves.

    >>> plain(r"\\text{\\textbf{Simon}~\\& \\emph{Garfunkel}}")
    'Simon & Garfunkel'
    """
    if len(text) > LONGEST:
        return text.strip()
    # Before fonts are unwrapped, which may put a letter behind them; a line end before a font command is two backslashes more.
    text, place = _SPACES.sub(" ", text), 0
    while command := _FONTS.search(text, place):
        content = braced("{" + text[command.end() :])
        if content is None:  # never closes
            place = command.end()
            continue
        place = command.start()
        text = text[:place] + content + text[command.end() + len(content) + 1 :]
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text.strip()
