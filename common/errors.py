"""Errors that a person can act on: each message says what is wrong and what to do."""


class UserError(Exception):
    """A problem with an input, a setting or the machine; commands print it as one line."""


class RecordError(UserError, ValueError):
    """A record that breaks its contract: says where, which field, what is wrong, the remedy."""

    def __init__(self, where: str, field: str, problem: str, remedy: str) -> None:
        at = f"{where}: " if where else ""
        super().__init__(f"{at}field '{field}': {problem}. {remedy}")
        self.where, self.field = where, field
