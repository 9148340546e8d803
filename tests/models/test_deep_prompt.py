"""Layer-wise soft prompts against the literal form of Tri-RAG eq. 5 to 7, and their invariances."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedModel

from models.files.backbone import load_backbone
from models.parts.adapters import attention_inputs
from models.parts.deep_prompt import (
    DeepPrompt,
    UnsupportedBackboneError,
    initialise_from_text,
    initialise_from_vocabulary,
    require_supported,
    selected_layers,
    use_prompt_attention,
)
from models.parts.prefix_tuning import as_prefix, save_prefix
from tests.models.decoder_families import (
    FAMILIES,
    LAYERS,
    SIZES,
    SLIDING_FAMILIES,
    VOCABULARY,
    tiny_decoder,
)
from tests.models.literal_prompt import literal_hidden_states
from tests.tiny import tiny_llama, tiny_tokenizer

TOKENS = 5
LENGTHS = (9, 4, 12)


def random_prompt(layers: str = "all", seed: int = 1) -> DeepPrompt:
    torch.manual_seed(seed)
    prompt = DeepPrompt(TOKENS, selected_layers(layers, LAYERS), SIZES["hidden_size"])
    with torch.no_grad():
        prompt.embeddings.normal_(0.0, 0.7)
    return prompt


def texts(side: str = "right") -> tuple[Tensor, Tensor]:
    """A padded batch of random texts: input_ids and attention_mask [B, T]."""
    torch.manual_seed(2)
    ids = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(LENGTHS):
        columns = slice(0, length) if side == "right" else slice(max(LENGTHS) - length, None)
        ids[row, columns] = torch.randint(3, VOCABULARY, (length,))
        mask[row, columns] = 1
    return ids, mask


def prompted_states(
    model: PreTrainedModel, prompt: DeepPrompt, input_ids: Tensor, mask: Tensor
) -> Tensor:
    output = model.get_decoder()(
        input_ids=input_ids,
        use_cache=False,
        deep_prompt=prompt.states(model),
        **attention_inputs(mask),
    )
    return output.last_hidden_state


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layers", ["all", "odd", "last"])
@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_and_gradients_equal_the_literal_form(family: str, layers: str) -> None:
    prompt, (input_ids, mask) = random_prompt(layers), texts()
    literal_model = tiny_decoder(family)
    by_layer = dict(zip(prompt.layers, prompt.embeddings, strict=True))
    expected = literal_hidden_states(literal_model, by_layer, input_ids, mask)
    weights = torch.randn_like(expected) * mask[..., None]
    (wanted,) = torch.autograd.grad((expected * weights).sum(), prompt.embeddings)

    model = tiny_decoder(family)
    use_prompt_attention(model)
    states = prompted_states(model, prompt, input_ids, mask)
    (gradient,) = torch.autograd.grad((states * weights).sum(), prompt.embeddings)
    real = mask.bool()
    close(states[real], expected[real])
    close(model.lm_head(states[real]), literal_model.lm_head(expected[real]))
    close(gradient, wanted)
    assert wanted.abs().amax(dim=(1, 2)).min() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_left_padding_and_batching_change_nothing(family: str) -> None:
    model, prompt = tiny_decoder(family), random_prompt()
    use_prompt_attention(model)
    right_ids, right_mask = texts("right")
    left_ids, left_mask = texts("left")
    right = prompted_states(model, prompt, right_ids, right_mask)[right_mask.bool()]
    if family not in SLIDING_FAMILIES:
        # The library counts a window in columns, padding included, with a prompt or without.
        left = prompted_states(model, prompt, left_ids, left_mask)[left_mask.bool()]
        close(left, right)
    alone = [
        prompted_states(
            model, prompt, right_ids[row : row + 1, :length], right_mask[row : row + 1, :length]
        )[0]
        for row, length in enumerate(LENGTHS)
    ]
    close(torch.cat(alone), right)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma", "gemma2", "mistral"])
def test_cached_steps_equal_one_pass(family: str) -> None:
    model, prompt = tiny_decoder(family), random_prompt("odd")
    use_prompt_attention(model)
    input_ids = texts()[0][2:3]
    whole = prompted_states(model, prompt, input_ids, torch.ones_like(input_ids))
    cache, steps = None, []
    for start, end in [(0, 6), *((i, i + 1) for i in range(6, input_ids.shape[1]))]:
        output = model.get_decoder()(
            input_ids=input_ids[:, start:end],
            past_key_values=cache,
            use_cache=True,
            deep_prompt=prompt.states(model),
        )
        cache = output.past_key_values
        steps.append(output.last_hidden_state)
    close(torch.cat(steps, dim=1), whole)


def test_embeddings_give_what_ids_give() -> None:
    model, prompt = tiny_decoder("llama"), random_prompt()
    use_prompt_attention(model)
    input_ids, mask = texts()
    from_ids = prompted_states(model, prompt, input_ids, mask)
    embeddings = model.get_input_embeddings()(input_ids)
    output = model.get_decoder()(inputs_embeds=embeddings, deep_prompt=prompt.states(model))
    close(output.last_hidden_state, from_ids)


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        model, prompt = tiny_decoder("qwen3"), random_prompt()
        use_prompt_attention(model)
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()
        prompted_states(model, prompt, *texts()).square().sum().backward()
        gradients.append(prompt.embeddings.grad)
    assert gradients[0] is not None and gradients[1] is not None
    close(gradients[1], gradients[0])


def test_bfloat16_training_step_is_near_float32() -> None:
    gradients = []
    for dtype in (torch.float32, torch.bfloat16):
        model, prompt = tiny_decoder("llama").to(dtype), random_prompt()  # type: ignore[arg-type]
        use_prompt_attention(model)
        prompted_states(model, prompt, *texts()).float().square().mean().backward()
        assert prompt.embeddings.grad is not None
        gradients.append(prompt.embeddings.grad)
    assert torch.cosine_similarity(*(g.flatten() for g in gradients), dim=0) > 0.99


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma"])
def test_a_prompt_loads_as_a_peft_prefix_with_equal_logits(family: str, tmp_path: Path) -> None:
    model, prompt, (input_ids, mask) = tiny_decoder(family), random_prompt(), texts()
    save_prefix(as_prefix(prompt, model), family, tmp_path)
    peft_model = PeftModel.from_pretrained(tiny_decoder(family), str(tmp_path)).eval()
    with torch.no_grad():
        theirs = peft_model(input_ids=input_ids, attention_mask=mask).logits
        use_prompt_attention(model)
        ours = model.lm_head(prompted_states(model, prompt, input_ids, mask))
    close(ours[mask.bool()], theirs[mask.bool()])


def test_a_prefix_needs_all_layers() -> None:
    with pytest.raises(UnsupportedBackboneError, match="2 of 4"):
        as_prefix(random_prompt("odd"), tiny_decoder("llama"))


def test_a_prompt_made_of_a_text_is_that_text_as_a_prefix() -> None:
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    use_prompt_attention(model)
    with torch.no_grad():  # so large that the norm's epsilon does not count
        model.get_input_embeddings().weight.mul_(50)
    prompt = DeepPrompt(11, range(2), 64)
    initialise_from_text(prompt, model, tokenizer, "instruction")
    ids = [1, *tokenizer("instruction", add_special_tokens=False)["input_ids"]][:11]
    more = tokenizer(" and text", add_special_tokens=False, return_tensors="pt")["input_ids"]
    decoder = model.get_decoder()
    whole = decoder(input_ids=torch.cat([torch.tensor([ids]), more], dim=1)).last_hidden_state
    ours = decoder(input_ids=more, deep_prompt=prompt.states(model)).last_hidden_state
    close(ours, whole[:, 11:])


def test_a_prompt_made_of_the_vocabulary_holds_its_embeddings() -> None:
    model, prompt = tiny_decoder("llama"), random_prompt()
    initialise_from_vocabulary(prompt, model)
    rows = torch.nn.functional.normalize(model.get_input_embeddings().weight)
    made = prompt.embeddings.flatten(0, 1)
    nearest = (torch.nn.functional.normalize(made) @ rows.T).argmax(dim=1)
    close(torch.nn.functional.normalize(made), rows[nearest])
    close(made.square().mean(dim=1), torch.ones(len(made)))
    assert len(nearest.unique()) > 1


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        initialise_from_text(random_prompt(), tiny_decoder("llama"), tiny_tokenizer(), "")


def test_parameters_are_n_times_d_times_the_selected_layers() -> None:
    counts = [sum(p.numel() for p in random_prompt(s).parameters()) for s in ("all", "odd", "last")]
    assert counts == [TOKENS * 32 * 4, TOKENS * 32 * 2, TOKENS * 32]


@pytest.mark.parametrize(
    ("selection", "layers"),
    [("all", (0, 1, 2, 3)), ("odd", (1, 3)), ("even", (0, 2)), ("last", (3,)), ([-1, 0], (0, 3))],
)
def test_selected_layers(selection: str | list[int], layers: tuple[int, ...]) -> None:
    assert selected_layers(selection, 4) == layers


@pytest.mark.parametrize("selection", ["some", [], [4], [1, -3]])
def test_layers_that_are_not_there_are_refused(selection: str | list[int]) -> None:
    with pytest.raises(ValueError, match="layer"):
        selected_layers(selection, 4)


def test_other_decoders_and_long_prompts_are_refused() -> None:
    gpt2 = AutoModelForCausalLM.from_config(GPT2Config(n_layer=1, n_embd=12))
    with pytest.raises(UnsupportedBackboneError, match=r"gpt2: .*rotary_emb"):
        require_supported(gpt2, 4)
    with pytest.raises(UnsupportedBackboneError, match="context of llama, which holds 128"):
        require_supported(tiny_decoder("llama"), 128)
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    dynamic = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, rope_parameters=rope))
    with pytest.raises(UnsupportedBackboneError, match="'dynamic'"):
        require_supported(dynamic, 4)


@pytest.fixture(scope="module")
def smollm2() -> PreTrainedModel:
    model = load_backbone("smollm2", "float32").eval().requires_grad_(False)
    use_prompt_attention(model)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers", [pytest.param("all", marks=pytest.mark.exhaustive), "odd", "last"]
)
def test_smollm2_equals_the_literal_form(layers: str, smollm2: PreTrainedModel) -> None:
    # Thirty layers round a float32 gradient by more than 1e-4 on some processors. In float64 the
    # norms' and the rotary angles' own float32 is left.
    logits, gradient = _distances(layers, smollm2)
    assert logits < 1e-4 and gradient < 5e-4
    assert max(_distances(layers, deepcopy(smollm2).double())) < 1e-4


def _distances(layers: str, smollm2: PreTrainedModel) -> tuple[float, float]:
    """How far logits and gradients are from the literal form's, in shares of their size."""
    torch.manual_seed(3)
    prompt = DeepPrompt(8, selected_layers(layers, 30), 576).to(smollm2.dtype)
    input_ids, mask = torch.randint(10, 40_000, (2, 14)), torch.ones(2, 14, dtype=torch.long)
    by_layer = dict(zip(prompt.layers, prompt.embeddings, strict=True))
    results = []
    for states in (
        literal_hidden_states(smollm2, by_layer, input_ids, mask),
        prompted_states(smollm2, prompt, input_ids, mask),
    ):
        logits = smollm2.lm_head(states)
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), input_ids[:, 1:].flatten()
        )
        (gradient,) = torch.autograd.grad(loss, prompt.embeddings)
        results.append((logits.detach(), gradient))
    apart = [
        float((ours - expected).norm() / expected.norm())
        for expected, ours in zip(*results, strict=True)
    ]
    return apart[0], apart[1]


@pytest.mark.slow
def test_smollm2_reads_a_prompt_as_a_peft_prefix(smollm2: PreTrainedModel, tmp_path: Path) -> None:
    torch.manual_seed(4)
    prompt = DeepPrompt(8, range(30), 576)
    input_ids = torch.randint(10, 40_000, (2, 14))
    save_prefix(as_prefix(prompt, smollm2), "smollm2", tmp_path)
    peft_model = PeftModel.from_pretrained(load_backbone("smollm2", "float32"), str(tmp_path))
    with torch.no_grad():
        theirs = peft_model.eval()(input_ids=input_ids).logits
        ours = smollm2.lm_head(
            prompted_states(smollm2, prompt, input_ids, torch.ones_like(input_ids))
        )
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-4
