"""Decoding a batch of prompts of different lengths, token by token.

Differs from the library's `generate` in five ways, none of which changes a token: prompts of
similar length are read together, so that little padding is computed; a prompt that several rows
have is read once; the cache is written in place; a row that is done leaves the batch instead of
being padded to its end; prompts that came later take its place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from inference.engines.batch_choice import Running
from inference.engines.contract import EngineClosedError
from inference.engines.token_choice import RowState, choose_tokens
from inference.engines.transformers.growing_cache import GrowingCache, prompt_cache
from models.parts.adapters import last_position
from models.parts.deep_prompt import PromptStates

# Read in one call: more do not make a CPU faster, and on a GPU a call costs more than padding.
PREFILL_TOKENS = {"cpu": 4096, "cuda": 65536}
# Prompts up to this much shorter than the longest of a group are read with it.
PREFILL_SHORTEST = 0.75
# A change of rows copies a part of the cache, so it waits until this share is done, or joins.
CHANGED_SHARE = 0.125
# Returns embeddings [t_i, d] of prompts that join the rows at work, none if fewer than asked for.
Join = Callable[[Running, int], tuple[list[torch.Tensor], list[RowState]]]


def prefill_groups(lengths: Sequence[int], most_tokens: int) -> list[range]:
    """Split rows, sorted by length, into groups that are read in one call each.

    most_tokens: of a group, its padding included.
    """
    groups: list[range] = []
    start = 0
    for place in range(1, len(lengths) + 1):
        if place < len(lengths):
            fits = (place - start + 1) * lengths[place] <= most_tokens
            if fits and lengths[start] >= PREFILL_SHORTEST * lengths[place]:
                continue
        groups.append(range(start, place))
        start = place
    return groups


def each_once(embeddings: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[int]]:
    """Return prompts [t_i, d] without those that are the tensor before, and how often each came."""
    runs = [list(same) for _, same in itertools.groupby(embeddings, key=id)]
    return [run[0] for run in runs], list(map(len, runs))


def left_pad(embeddings: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return prompts [t_i, d] as one tensor [B, T, d], padded in front, and its mask [B, T]."""
    longest = max(map(len, embeddings))
    padded = embeddings[0].new_zeros(len(embeddings), longest, embeddings[0].shape[-1])
    mask = torch.zeros(len(embeddings), longest, dtype=torch.long, device=padded.device)
    for row, prompt in enumerate(embeddings):
        padded[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return padded, mask


class CausalDecoder:
    """One batch on its way through a causal language model."""

    def __init__(
        self,
        model: PreTrainedModel,
        embeddings: Sequence[torch.Tensor],
        rows: Sequence[RowState],
        should_stop: Callable[[], bool],
        deep_prompt: PromptStates | None = None,
    ) -> None:
        """embeddings: prompts [t_i, d] in the order of `shortest_first`; rows: their states.

        should_stop: asked before each call of the model.
        """
        self.model = model
        self.deep_prompt = deep_prompt
        self.should_stop = should_stop
        self.rows = list(rows)
        self.embeddings: Sequence[torch.Tensor] = embeddings
        lengths = [len(prompt) for prompt in embeddings]
        self.width = lengths[-1]
        self.cache = GrowingCache(
            model.config.get_text_config().num_hidden_layers,
            self.width,
            self.width + most_new_tokens(rows),
            deep_prompt,
        )
        self.positions = torch.tensor(lengths, device=embeddings[0].device)
        self._lay_out()

    def _lay_out(self) -> None:
        """Say which columns of the cache each row has: those that end at the width."""
        columns = torch.arange(self.cache.capacity, device=self.positions.device)
        self.mask = (columns >= self.width - self.positions[:, None]).long()

    def prefill(self) -> torch.Tensor:
        """Read all prompts; returns the logits that follow each, [B, vocabulary]."""
        # Other prompts may join for long; these are not kept for as long.
        embeddings, self.embeddings = self.embeddings, []
        return self._read(embeddings, 0)

    def _read(self, embeddings: Sequence[torch.Tensor], first_row: int) -> torch.Tensor:
        """Read prompts, in the order of `shortest_first`, into the rows from `first_row` on."""
        logits = []
        device = self.positions.device
        prompts, repeats = each_once(embeddings)
        most_tokens = PREFILL_TOKENS.get(device.type, PREFILL_TOKENS["cpu"])
        row = first_row
        for group in prefill_groups(list(map(len, prompts)), most_tokens):
            stop_if(self.should_stop)
            padded, mask = left_pad([prompts[place] for place in group])
            cache = prompt_cache()
            output = self.model(
                inputs_embeds=padded,
                attention_mask=mask,
                position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=last_position(padded.device),
                **self._prompted(in_cache=False),
            )
            rows = [n for n, place in enumerate(group) for _ in range(repeats[place])]
            shared = torch.tensor(rows, device=device) if len(rows) > len(group) else None
            # The longest row of a group has no padding, so the group fits its columns.
            self.cache.place(row, len(self.rows), cache, shared)
            last = output.logits[:, -1]
            logits.append(last if shared is None else last[shared])
            row += len(rows)
        return torch.cat(logits)

    def admit(self, embeddings: Sequence[torch.Tensor], rows: Sequence[RowState]) -> torch.Tensor:
        """Read further prompts, as `shortest_first` orders them; returns the logits after each."""
        earlier = len(self.rows)
        self.rows += rows
        lengths = torch.tensor(list(map(len, embeddings)), device=self.positions.device)
        self.positions = torch.cat([self.positions, lengths])
        self.width = max(self.width, int(lengths[-1]))
        self.cache.extend(len(rows), self.width, self.width + most_new_tokens(self.rows))
        self._lay_out()
        return self._read(embeddings, earlier)

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Append one token to each row, [B]; returns the next logits, [B, vocabulary]."""
        self.width += 1
        output = self.model(
            input_ids=token_ids[:, None],
            attention_mask=self.mask[:, : self.width],
            position_ids=self.positions[:, None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
            **self._prompted(in_cache=True),
        )
        self.positions = self.positions + 1
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def _prompted(self, in_cache: bool) -> dict[str, PromptStates]:
        """Return the model's keyword for a soft prompt; none without one."""
        if self.deep_prompt is None:
            return {}
        return {"deep_prompt": replace(self.deep_prompt, in_cache=in_cache)}

    def keep(self, rows: torch.Tensor) -> None:
        """Keep these rows alone, and no column that none of them uses."""
        self.positions = self.positions[rows]
        first_column = self.width - int(self.positions.max())
        self.mask = self.mask[rows, first_column:]
        self.width -= first_column
        self.cache.keep(rows, first_column)


class EncoderDecoderDecoder:
    """One batch on its way through an encoder-decoder model; prompts are padded on the right."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[RowState],
        should_stop: Callable[[], bool],
    ) -> None:
        """prompts: ids with the tokenizer's own special tokens; rows: their states.

        should_stop: asked before each call of the model.
        """
        self.model = model
        self.should_stop = should_stop
        self.rows = list(rows)
        longest = max(map(len, prompts))
        self.mask = torch.tensor(
            [[1] * len(ids) + [0] * (longest - len(ids)) for ids in prompts], device=model.device
        )
        padded = [[*ids, *[0] * (longest - len(ids))] for ids in prompts]
        self.input_ids = torch.tensor(padded, device=model.device)
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def prefill(self) -> torch.Tensor:
        """Run the encoder and the decoder's start token; returns logits [B, vocabulary]."""
        stop_if(self.should_stop)
        encoder = self.model.get_encoder()
        self.encoded = encoder(input_ids=self.input_ids, attention_mask=self.mask)
        start = getattr(self.model.generation_config, "decoder_start_token_id", None)
        start = self.model.config.decoder_start_token_id if start is None else start
        return self.step(torch.full((len(self.rows),), int(start), device=self.mask.device))

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Append one token to each row, [B]; returns the next logits, [B, vocabulary]."""
        output = self.model(
            encoder_outputs=self.encoded,
            attention_mask=self.mask,
            decoder_input_ids=token_ids[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def keep(self, rows: torch.Tensor) -> None:
        """Keep these rows alone."""
        self.mask = self.mask[rows]
        self.encoded.last_hidden_state = self.encoded.last_hidden_state[rows]
        self.cache.batch_select_indices(rows)


def most_new_tokens(rows: Sequence[RowState]) -> int:
    """Return the most tokens that any of these rows may still write."""
    return max(row.sampling.max_new_tokens - len(row.token_ids) for row in rows)


def drop_finished(
    decoder: CausalDecoder | EncoderDecoderDecoder, token_ids: torch.Tensor, share: float
) -> torch.Tensor:
    """Let finished rows go once this share of all is done; returns the ids of those that stay."""
    rows = decoder.rows
    active = [place for place, row in enumerate(rows) if row.finish_reason is None]
    if not active or len(rows) - len(active) < max(1, share * len(rows)):
        return token_ids
    kept = moved_into_gaps(active)
    decoder.rows = [rows[place] for place in kept]
    places = torch.tensor(kept, device=token_ids.device)
    decoder.keep(places)
    return token_ids[places]


def moved_into_gaps(active: Sequence[int]) -> list[int]:
    """Return places in an order in which as many as can be stay: the last fill the gaps.

    active: ascending.
    """
    count = len(active)
    staying = {place for place in active if place < count}
    last = iter([place for place in active if place >= count])
    return [place if place in staying else next(last) for place in range(count)]


def shortest_first(
    embeddings: Sequence[torch.Tensor], rows: Sequence[RowState]
) -> tuple[list[torch.Tensor], list[RowState]]:
    """Return prompts [t_i, d] and their rows by the prompts' lengths, rows of one prompt together.

    Rows have a prompt in common where they have the same tensor.
    """
    first_place: dict[int, int] = {}
    for place, prompt in enumerate(embeddings):
        first_place.setdefault(id(prompt), place)

    def key(place: int) -> tuple[int, int]:
        prompt = embeddings[place]
        return len(prompt), first_place[id(prompt)]

    order = sorted(range(len(rows)), key=key)
    return [embeddings[place] for place in order], [rows[place] for place in order]


def let_join(decoder: CausalDecoder, token_ids: torch.Tensor, join: Join) -> torch.Tensor:
    """Read prompts that join, in finished rows' places; returns the last token of each row."""
    active = [row for row in decoder.rows if row.finish_reason is None]
    if not active:
        return token_ids
    running = Running(len(active), decoder.width, most_new_tokens(active))
    embeddings, rows = join(running, math.ceil(CHANGED_SHARE * len(active)))
    if not rows:
        return token_ids
    token_ids = drop_finished(decoder, token_ids, share=0.0)
    embeddings, rows = shortest_first(embeddings, rows)
    logits = decoder.admit(embeddings, rows)
    return torch.cat([token_ids, choose_tokens(logits, rows)])


def stop_if(should_stop: Callable[[], bool]) -> None:
    """Raise EngineClosedError where it says so."""
    if should_stop():
        raise EngineClosedError("the engine was closed while this request ran")


def decode(decoder: CausalDecoder | EncoderDecoderDecoder, join: Join | None = None) -> None:
    """Generate for every row until it is done; the rows hold the outcome.

    Raises EngineClosedError once the decoder's `should_stop` says so.
    """
    token_ids = choose_tokens(decoder.prefill(), decoder.rows)
    while any(row.finish_reason is None for row in decoder.rows):
        stop_if(decoder.should_stop)
        for row in decoder.rows:
            if row.finish_reason is None and row.abandoned():
                row.finish("abandoned")
        if join is not None and isinstance(decoder, CausalDecoder):
            token_ids = let_join(decoder, token_ids, join)
        token_ids = drop_finished(decoder, token_ids, CHANGED_SHARE)
        token_ids = choose_tokens(decoder.step(token_ids), decoder.rows)


@torch.inference_mode()
def decode_causal(
    model: PreTrainedModel,
    embeddings: Sequence[torch.Tensor],
    rows: Sequence[RowState],
    should_stop: Callable[[], bool] = lambda: False,
    deep_prompt: PromptStates | None = None,
    join: Join | None = None,
) -> None:
    """Decode with a causal model; embeddings: prompts [t_i, d] in any order.

    deep_prompt: of a model that runs with `prompted_attention`. join: gives prompts that came in
    the meantime.
    """
    embeddings, rows = shortest_first(embeddings, rows)
    decoder = CausalDecoder(model, embeddings, rows, should_stop, deep_prompt)
    del embeddings
    decode(decoder, join)


@torch.inference_mode()
def decode_encoder_decoder(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[RowState],
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Decode with an encoder-decoder model, from prompt ids."""
    decode(EncoderDecoderDecoder(model, prompts, rows, should_stop))
