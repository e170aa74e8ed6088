"""What a user is meant to read: one sentence with what is wrong, where, and what to do."""


class UserError(Exception):
    """Bad input or an unfit machine. The command line prints the sentence and exits with 2, without a traceback."""


class DataWarning(UserWarning):
    """Something in the data that is passed over. The command line prints the sentence among the progress."""
