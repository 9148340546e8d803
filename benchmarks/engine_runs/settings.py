"""What the comparison of engines runs on, and which engines it compares."""

from dataclasses import dataclass

from benchmarks.steps.settings_file import FiledSettings

DOCUMENTS_FILE = "documents.jsonl"
CONTESTANTS = {
    "transformers": "our engine on transformers, adapter merged",
    "vllm": "our engine on vLLM",
    "vllm_no_prefix_caching": "the same without prefix caching",
    "vllm_grammar": "our engine on vLLM, outputs held to the triples' grammar",
    "bare_vllm": "vLLM's own LLM class, all requests at once",
}


@dataclass(frozen=True)
class EngineRunSettings(FiledSettings):
    """Sizes of the comparison, the same for all contestants.

    t2t: component folder that extracts. documents: of each concurrency, all different.
    documents_one: of the concurrency of one. max_new_tokens: of an extraction.
    untrained: without the component's adapter.
    """

    t2t: str
    dtype: str = "bfloat16"
    concurrencies: tuple[int, ...] = (1, 8, 32)
    documents: int = 64
    documents_one: int = 8
    max_new_tokens: int = 128
    untrained: bool = False
    threads: int = 2

    def __post_init__(self) -> None:
        # JSON has no tuples.
        object.__setattr__(self, "concurrencies", tuple(self.concurrencies))

    def documents_of(self, concurrency: int) -> int:
        """How many documents a concurrency gets."""
        return self.documents_one if concurrency == 1 else self.documents
