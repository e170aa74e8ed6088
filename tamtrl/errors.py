"""The one exception a user is meant to read: a sentence with what is wrong, where, and what to do."""


class UserError(Exception):
    """Bad input or an unfit machine. The command line prints the sentence and exits with 2, without a traceback."""
