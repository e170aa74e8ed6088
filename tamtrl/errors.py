"""What a user is meant to read: one sentence with what is wrong, where, and what to do."""


def shown(name: object, longest: int = 4000) -> str:
    """A text on one line: what can't be printed (line ends, bytes that are no UTF-8) as escapes, of a long one both ends."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))
    text = "".join(escaped) if not str(name).isprintable() else str(name)
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[-longest // 2 :]}"


class UserError(Exception):
    """Bad input or an unfit machine. The command line prints the sentence and exits with 2, without a traceback."""

    def __init__(self, sentence: object = ""):
        super().__init__(shown(sentence))


class DataWarning(UserWarning):
    """Something in the data that is passed over. The command line prints the sentence among the progress."""

    def __init__(self, sentence: object = ""):
        super().__init__(shown(sentence))
