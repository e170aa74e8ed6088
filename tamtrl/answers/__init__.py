"""What an answer is worth: the training verifier, evaluation's metrics, and typeset answers as plain text."""
