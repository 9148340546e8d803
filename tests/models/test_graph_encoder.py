"""The graph encoder's invariances, its pooling, and its empty token."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.formats.triples import Triple
from models.parts.graph_encoder import GraphEncoder, GraphEncoderConfig
from tests.models.graphs import FEATURE_DIM, STEPS, graph_batch

KINDS = ("graph_transformer", "gat", "gcn")
SETTINGS = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
A = Triple("a", "p", "b")
B = Triple("b", "q", "c")
C = Triple("c", "r", "d")


def build(kind: str = "graph_transformer", **changes: object) -> GraphEncoder:
    torch.manual_seed(0)
    sizes = {"input_dim": FEATURE_DIM, "hidden_dim": 32, "num_layers": 2, "num_heads": 4}
    sizes |= {"projector_dim": 24, "output_dim": 20, "kind": kind} | changes  # type: ignore[dict-item]
    return GraphEncoder(GraphEncoderConfig(**sizes), token_norm=3.0).eval()  # type: ignore[arg-type]


@pytest.fixture(params=KINDS)
def encoder(request: pytest.FixtureRequest) -> GraphEncoder:
    return build(request.param)


@SETTINGS
@given(samples=st.lists(STEPS, min_size=1, max_size=5))
def test_a_batch_equals_its_samples_one_by_one(
    encoder: GraphEncoder, samples: list[list[list[Triple]]]
) -> None:
    together = encoder(graph_batch(samples))
    alone = torch.cat([encoder(graph_batch([steps])) for steps in samples])
    assert together.shape == (len(samples), 20)
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


@SETTINGS
@given(steps=STEPS, random=st.randoms(use_true_random=False))
def test_order_of_subgraphs_triples_and_nodes_does_not_matter(
    encoder: GraphEncoder, steps: list[list[Triple]], random: object
) -> None:
    shuffled = [random.sample(triples, len(triples)) for triples in steps]  # type: ignore[attr-defined]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    torch.testing.assert_close(
        encoder(graph_batch([steps])), encoder(graph_batch([shuffled])), rtol=1e-5, atol=1e-5
    )


def test_repeated_triples_and_empty_steps_do_not_matter(encoder: GraphEncoder) -> None:
    plain = encoder(graph_batch([[[A, B], [C]]]))
    padded = encoder(graph_batch([[[A, B, A], [], [C, C]]]))
    torch.testing.assert_close(plain, padded)


def test_pooling_is_a_mean_of_subgraph_means() -> None:
    encoder = build()
    means: list[torch.Tensor] = []
    encoder.projector.register_forward_pre_hook(lambda _, args: means.append(args[0]))
    for sample in ([[A, B], [C]], [[A, B]], [[C]]):
        encoder(graph_batch([sample]))
    torch.testing.assert_close(means[0], (means[1] + means[2]) / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_predicates_matter_except_to_gcn(kind: str) -> None:
    encoder = build(kind)
    same = torch.allclose(
        encoder(graph_batch([[[A]]])), encoder(graph_batch([[[Triple("a", "other", "b")]]]))
    )
    assert same == (kind == "gcn")


@pytest.mark.parametrize("samples", [[[[A, B]], []], [[], [[]]], [[[A], [B, C]]]])
def test_every_parameter_takes_part(encoder: GraphEncoder, samples: list) -> None:  # type: ignore[type-arg]
    encoder(graph_batch(samples)).square().sum().backward()
    assert [name for name, p in encoder.named_parameters() if p.grad is None] == []
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)


def test_empty_histories_share_one_learned_token(encoder: GraphEncoder) -> None:
    tokens = encoder(graph_batch([[], [[]], [[A]]]))
    assert torch.equal(tokens[0], tokens[1]) and not torch.allclose(tokens[0], tokens[2])


def test_tokens_start_at_the_asked_norm(encoder: GraphEncoder) -> None:
    norms = encoder(graph_batch([[[A, B]], [], [[C]]])).norm(dim=1)
    torch.testing.assert_close(norms, torch.full((3,), 3.0), rtol=0.02, atol=0)


def test_runs_in_bfloat16_and_under_autocast() -> None:
    encoder, graph = build(), graph_batch([[[A, B]], [], [[C]]])
    reference = encoder(graph)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(encoder(graph).float(), reference, rtol=0.1, atol=0.1)
    half = encoder.bfloat16()(graph)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), reference, rtol=0.1, atol=0.1)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"hidden_dim 30 .*num_heads 4"):
        build(hidden_dim=30)
    with pytest.raises(ValueError, match=r"graph\.kind is 'sage'"):
        build("sage")
    with pytest.raises(ValueError, match="output_dim"):
        build(output_dim=0)
