"""Errors that more than one learned component raises."""


class LabelCutError(ValueError):
    """A sample's label does not fit whole; training on a part of it would teach a broken form."""

    def __init__(self, sample_id: str, label_tokens: int, limit: int, setting: str) -> None:
        self.sample_id = sample_id
        super().__init__(
            f"sample '{sample_id}': its label needs {label_tokens} tokens and {setting} leaves "
            f"room for {limit}. Raise {setting} or leave the sample out."
        )
