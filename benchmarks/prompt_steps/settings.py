"""What the comparison of soft prompts runs on, and which ways of training one it compares."""

from dataclasses import dataclass

from benchmarks.steps.settings_file import FiledSettings

CONTESTANTS = {
    "ours": "layer-wise soft prompt, keys and values alone",
    "literal": "eq. 5 to 7 to the letter",
    "peft_prefix": "PEFT prefix tuning as it ships",
    "input_prompt": "input-level prompt of the same length",
    "ours_checkpointing": "ours, gradient checkpointing",
    "literal_checkpointing": "to the letter, gradient checkpointing",
    "peft_prefix_checkpointing": "PEFT prefix tuning, gradient checkpointing",
}


@dataclass(frozen=True)
class PromptSettings(FiledSettings):
    """Sizes of the comparison, the same for all contestants.

    num_tokens: n, prompt tokens. batch_size, length: of the texts, without padding, every token
    with a loss. steps: measured after one warm-up step.
    """

    backbone: str = "smollm2"
    dtype: str = "bfloat16"
    num_tokens: int = 32
    batch_size: int = 4
    length: int = 256
    steps: int = 3
    threads: int = 1
    seed: int = 0
