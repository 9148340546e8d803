"""A helper: an adapter on the shared backbone that is trained for one or several small jobs.

The jobs are those for which the systems prompt a large model: to write the sub-query of a document
(RAS App. C.2), to decompose a question and to resolve its triplets (T²RAG §4.3), to judge what is
still missing (Trig-Nav §3.2), to say under which topic an entity belongs (TH-RAG App. A.3), to
choose topics and subtopics for a question (TH-RAG App. A.4 and A.5). One adapter can do several of
them: each has prompts of a form of its own, which tell it what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from common.names import did_you_mean
from models.component import ComponentConfig, ComponentModel
from models.files.checkpoint import CONFIG_FILE, NotACheckpointError
from models.formats.records import HelperTask
from models.processors.passages import InstructionProcessor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

COMPONENT = "helper"
# The key of folders that were written when a helper had one task.
ONE_TASK = "task"


@dataclass(frozen=True)
class HelperConfig(ComponentConfig):
    """Settings of a helper: `ComponentConfig`'s and these.

    Attributes:
        tasks: what it was trained for, one or more.
    """

    component: ClassVar[str] = COMPONENT

    max_output_tokens: int = 128
    tasks: tuple[HelperTask, ...] = field(kw_only=True)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: str | Path) -> Self:
        """Return the settings among the entries of a folder's config.json.

        Raises:
            NotACheckpointError: an unknown key or task, or no task.
        """
        path, known = Path(folder) / CONFIG_FILE, get_args(HelperTask)
        values = dict(values)
        if ONE_TASK in values:
            values["tasks"] = [values.pop(ONE_TASK)]
        tasks = values.get("tasks")
        if not isinstance(tasks, list) or not tasks:
            raise NotACheckpointError(
                f"{path}: no list of tasks in 'tasks'. Name those it was trained for, out of: "
                f"{', '.join(known)}"
            )
        for task in tasks:
            if task not in known:
                raise NotACheckpointError(
                    f"{path}: '{task}' is no helper's task, {did_you_mean(task, known)}. Known "
                    f"here: {', '.join(known)}"
                )
        return super().from_dict({**values, "tasks": tuple(tasks)}, folder)

    def processor(self, tokenizer: PreTrainedTokenizerBase) -> InstructionProcessor:
        """Return what turns prompts into this helper's ids."""
        return InstructionProcessor(tokenizer, self.max_input_tokens, self.max_output_tokens)

    def fitted_to(self, backbone: PreTrainedModel) -> Self:
        """Return these settings.

        Raises:
            ValueError: an encoder-decoder backbone, or no adapter: engines put helpers beside each
                other on one causal backbone.
        """
        if backbone.config.is_encoder_decoder or not self.has_adapter:
            raise ValueError(
                "a helper is a LoRA adapter on a causal backbone: give one that is no "
                "encoder-decoder model, and a rank of 1 or more "
                f"(rank {self.lora_rank} on {self.backbone})"
            )
        return self


def read_helper_config(folder: str | Path, task: HelperTask) -> HelperConfig:
    """Read the settings of a helper that was trained for `task`.

    Raises:
        NotACheckpointError: no helper, or one for another task. TruncatedCheckpointError.
    """
    config = HelperConfig.read(folder)
    if task not in config.tasks:
        named = " and ".join(f"'{name}'" for name in config.tasks)
        raise NotACheckpointError(
            f"{folder} is a helper for {named}, and '{task}' is needed here. Give the folder of a "
            "helper that was trained for it."
        )
    return config


class Helper(ComponentModel[HelperConfig]):
    """A frozen causal backbone and a helper's adapter."""

    config_type = HelperConfig
