"""Linear layers laid out for oneDNN against those of PyTorch that they take the place of."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from models.files.sentence_encoder import TransformerEncoder, load_transformer
from models.kernels.cpu_linear import PackedLinear, pack_linears
from tests.tiny import tiny_llama

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="PyTorch was built without oneDNN"
)


BFLOAT16 = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    reason="oneDNN has no bfloat16 on this machine",
)
DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=BFLOAT16)]


def packed(layer: nn.Linear) -> nn.Linear:
    """A copy of a layer, laid out."""
    model = nn.Sequential(copy.deepcopy(layer).requires_grad_(False))
    pack_linears(model)
    assert type(model[0]) is PackedLinear
    return model[0]


@pytest.mark.parametrize("sizes", [(576, 192), (384, 1536), (7, 3), (1, 1)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [(), (1,), (33,), (2, 5), (0,), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_pytorch(
    sizes: tuple[int, int], bias: bool, rows: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(*sizes, bias=bias, dtype=dtype)
    x = torch.randn(*rows, sizes[0], dtype=dtype)
    # A rounding of the output's dtype, since the order of a sum is oneDNN's.
    close = 1e-5 if dtype == torch.float32 else 2**-7
    with torch.inference_mode():
        torch.testing.assert_close(packed(layer)(x), layer(x), rtol=close, atol=close)


@pytest.mark.parametrize("dtype", DTYPES)
def test_under_autocast_inputs_of_another_dtype_are_cast(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 8, dtype=dtype)
    x = torch.randn(3, 16)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(
            packed(layer)(x).float(), layer(x).float(), rtol=2**-6, atol=2**-6
        )


def test_inputs_need_not_be_contiguous() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(48, 20)
    with torch.no_grad():
        for x in (torch.randn(3, 9, 48)[:, -1], torch.randn(6, 96)[:, ::2], torch.randn(48, 5).t()):
            torch.testing.assert_close(packed(layer)(x), layer(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_weight_is_unchanged_and_takes_no_second_place(dtype: torch.dtype) -> None:
    layer = nn.Linear(64, 32, dtype=dtype)
    after = packed(layer)
    assert torch.equal(after.weight.to_dense(), layer.weight)
    assert after.weight.shape == layer.weight.shape
    assert [name for name, _ in after.named_parameters()] == ["weight", "bias"]


def test_gradients_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 8)
    x = torch.randn(4, 16, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    packed(layer)(x).square().sum().backward()
    F.linear(y, layer.weight.detach(), layer.bias.detach()).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_what_learns_and_other_dtypes_stay() -> None:
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Linear(4, 4).double().requires_grad_(False), PackedLinear(4, 4)
    )
    before = [module.weight for module in model]
    pack_linears(model)
    assert [type(module) for module in model] == [nn.Linear, nn.Linear, PackedLinear]
    assert all(module.weight is weight for module, weight in zip(model, before, strict=True))


def test_a_language_model_says_the_same_and_keeps_its_embeddings() -> None:
    """The head's weight is the embeddings' too, which are looked up as they were."""
    plain = tiny_llama().eval().requires_grad_(False)
    model = copy.deepcopy(plain)
    embeddings = model.get_input_embeddings().weight
    pack_linears(model)
    assert not any(type(module) is nn.Linear for module in model.modules())
    assert model.get_input_embeddings().weight is embeddings
    ids = torch.randint(3, 259, (2, 9))
    with torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, rtol=1e-5, atol=1e-5)


def test_a_sentence_encoder_is_the_same_by_its_fingerprint_and_its_vectors() -> None:
    encoder = TransformerEncoder("minilm", "minilm", "cpu")
    plain = load_transformer("minilm", "cpu").eval()
    state = encoder._model.state_dict()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(state[name].to_dense(), tensor)
    vectors = torch.from_numpy(encoder.encode(["A river.", "Who is the chair of the meeting?"]))
    expected = plain.encode(["A river.", "Who is the chair of the meeting?"])
    torch.testing.assert_close(vectors, torch.from_numpy(expected), rtol=1e-4, atol=1e-5)
