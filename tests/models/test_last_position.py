"""The head sees one contiguous position, and its logits are those of the last one."""

import torch

from models.parts.adapters import last_position
from tests.tiny import tiny_llama


def test_the_last_logits_without_a_strided_slice() -> None:
    model = tiny_llama()
    input_ids = torch.randint(3, 200, (3, 5))
    seen: list[torch.Tensor] = []
    model.lm_head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        expected = model(input_ids).logits[:, -1:]
        found = model(input_ids, logits_to_keep=last_position(input_ids.device)).logits
    torch.testing.assert_close(found, expected)
    # A strided slice makes PyTorch copy the head's weights once a row.
    assert seen[1].shape == (3, 1, model.config.hidden_size)
    assert seen[1].is_contiguous()
