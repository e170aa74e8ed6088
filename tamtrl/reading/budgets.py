"""Token budgets of the reader (paper: 1024 query, 5000 chunk, 1024 memory, 1024 output in a window of 8192)."""

from dataclasses import dataclass

from tamtrl.errors import UserError


@dataclass(frozen=True)
class Budgets:
    """All in tokens, except ``max_chunks``. ``truncate`` lets a document longer than ``max_chunks`` lose its end."""

    query_tokens: int
    chunk_tokens: int
    memory_tokens: int
    output_tokens: int
    window_tokens: int
    max_chunks: int
    truncate: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "truncate" and value < 1:
                raise UserError(f"reading.{name} must be at least 1, not {value}.")

    @property
    def prompt_tokens(self) -> int:
        """The longest prompt that leaves room for the longest response."""
        return self.window_tokens - self.response_tokens

    @property
    def response_tokens(self) -> int:
        return max(self.memory_tokens, self.output_tokens)

    def check(self, update_template: int, answer_template: int) -> None:
        """Refuse budgets whose sum, with the template's own tokens, is more than the window."""
        update = update_template + self.query_tokens + self.chunk_tokens + 2 * self.memory_tokens
        answer = answer_template + self.query_tokens + self.memory_tokens + self.output_tokens
        needed = max(update, answer)
        if needed > self.window_tokens:
            raise UserError(
                f"The reading budgets need {needed} tokens but reading.window_tokens is {self.window_tokens}: "
                f"memory turn = template {update_template} + query {self.query_tokens} + chunk {self.chunk_tokens} + "
                f"2 x memory {self.memory_tokens}; answer turn = template {answer_template} + query + memory + output "
                f"{self.output_tokens}. Lower one of them or raise the window."
            )
