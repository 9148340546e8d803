"""The parts of a training step: scopes around a model's modules, and a profile cut along them.

Scopes are `record_function` blocks that forward hooks open and close. What autograd computes
backwards belongs to the part whose forward operation made the node; PyTorch numbers both alike.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from torch import nn
from torch.profiler import record_function

from models.parts.loss import decoder_body

# In the order of the tables.
PARTS: dict[str, str] = {
    "embedding": "embedding of tokens",
    "norms": "norms",
    "attention": "attention without its projections",
    "backbone_products": "matrix products of the backbone's weights",
    "lora": "LoRA: its products, casts and dropout",
    "activations": "between the feed-forward products",
    "soft_prompt": "soft prompt",
    "graph_encoder": "graph encoder",
    "head_and_loss": "language-model head and loss",
    "data_loading": "data loading",
    "optimizer": "clipping and optimizer",
    "everything_else": "everything else",
}
PHASES = ("forward", "backward", "between")
ELSE = "everything_else"
STEP = "profiled step"
# In front of a part's name; behind it "@in,out" for each weight [out, in] that LoRA adds to.
SCOPE = "part: "
PHASE = "phase: "
# What PyTorch itself records.
RECORDED = {"enumerate(DataLoader)": "data_loading", "Optimizer.": "optimizer"}
NODE = "autograd::engine::evaluate_function"
PRODUCTS = {"aten::mm": 0, "aten::addmm": 1, "aten::addmm_": 1}


class Product(NamedTuple):
    """A matrix product [rows, inner] x [inner, columns]."""

    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """Return its multiplications and additions."""
        return 2 * self.rows * self.inner * self.columns


class Place(NamedTuple):
    """Where an operation belongs; `weights` are (in, out) of the layers that LoRA adds to."""

    part: str
    weights: tuple[tuple[int, int], ...] = ()


@dataclass
class Open:
    """An event that has begun; `own` are its seconds without those of events inside it."""

    end: float
    place: Place
    phase: str
    own: float
    in_product: bool = False


@dataclass
class StepProfile:
    """One step cut into parts.

    seconds: by part and phase. products: by part, each with its phase, how often it was computed
    and the seconds that this took. step_seconds: of the whole step, as the profile has it.
    """

    seconds: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    products: dict[str, dict[tuple[str, Product], list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    step_seconds: float = 0.0

    @property
    def sum_of_parts(self) -> float:
        """Return the seconds of all parts."""
        return sum(self.seconds.values())


class Scopes:
    """Hooks that mark a component's modules for as long as the block runs."""

    def __init__(self, component: nn.Module, trainer: Any) -> None:
        """component: of a recipe. trainer: its own; what it calls between the passes is marked."""
        self.component = component
        self.trainer = trainer
        self._open: list[record_function] = []
        self._stack = ExitStack()

    def __enter__(self) -> "Scopes":
        """Put the hooks on."""
        component = cast(Any, self.component)
        body = decoder_body(component.model)
        self._mark(component, f"{PHASE}forward")
        lm_head = component.backbone.get_output_embeddings()
        for name, module in component.named_modules():
            if module is not lm_head and (label := part_of(name, module)):
                self._mark(module, SCOPE + label)
        # From the decoder's end to the component's there are the head and the loss.
        head = SCOPE + "head_and_loss"
        self._keep(body.register_forward_hook(lambda *_: self._begin(head)))
        self._keep(component.register_forward_hook(lambda *_: self._end(), prepend=True))
        for owner, method, label in (
            (self.trainer.accelerator, "backward", f"{PHASE}backward"),
            (self.trainer.accelerator, "clip_grad_norm_", f"{SCOPE}optimizer"),
            (self.trainer, "get_batch_samples", f"{SCOPE}data_loading"),
            (component, "prompt_states", f"{SCOPE}soft_prompt"),
        ):
            if hasattr(owner, method):
                self._stack.enter_context(_scoped(owner, method, label))
        return self

    def __exit__(self, *error: object) -> None:
        """Take the hooks off; scopes that an error left open are closed."""
        self._stack.close()
        while self._open:
            self._end()

    def _mark(self, module: nn.Module, label: str) -> None:
        self._keep(module.register_forward_pre_hook(lambda *_: self._begin(label), prepend=True))
        self._keep(module.register_forward_hook(lambda *_: self._end()))

    def _keep(self, handle: Any) -> None:
        self._stack.callback(handle.remove)

    def _begin(self, label: str) -> None:
        scope = record_function(label)
        scope.__enter__()
        self._open.append(scope)

    def _end(self) -> None:
        self._open.pop().__exit__(None, None, None)


def part_of(name: str, module: nn.Module) -> str | None:
    """Return the part that a module begins, by its kind; None for one that begins none.

    name: its path in the component. Modules inside the graph encoder are all its own.
    """
    # Late, as a command's --help does not need PEFT.
    from peft.tuners.lora.layer import LoraLayer

    first, _, inner = name.partition(".")
    if first == "graph_encoder":
        return None if inner else "graph_encoder"
    kind = type(module).__name__
    if isinstance(module, LoraLayer):
        group = getattr(module, "same_input", None)
        layers: list[Any] = (group and group.layers) or [module]
        weights = [layer.get_base_layer().weight for layer in layers]
        return "lora" + "".join(f"@{w.shape[1]},{w.shape[0]}" for w in weights if w.dim() == 2)
    if isinstance(module, nn.Linear):
        return None if ".lora_" in name else "backbone_products"
    if isinstance(module, nn.Embedding):
        return "embedding"
    endings = {"Norm": "norms", "Attention": "attention", "RotaryEmbedding": "attention",
               "MLP": "activations"}  # fmt: skip
    return next((part for ending, part in endings.items() if kind.endswith(ending)), None)


@contextmanager
def _scoped(owner: Any, method: str, label: str) -> Iterator[None]:
    """Run an object's method in a scope for as long as the block runs."""
    inner: Callable[..., Any] = getattr(owner, method)

    def run(*args: Any, **options: Any) -> Any:
        with record_function(label):
            return inner(*args, **options)

    # Not setattr: modules register what is set on them.
    owner.__dict__[method] = run
    try:
        yield
    finally:
        del owner.__dict__[method]


def cut(events: Iterable[Any], tokens: set[int]) -> StepProfile:
    """Return a profile's `events()` cut into the parts of the step that they hold.

    tokens: those of each micro-batch, padding included, which tell a product over tokens from one
    over LoRA's rank. Raises ValueError where no step was recorded whole.
    """
    ordered = sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end))
    step = next((e for e in ordered if e.name == STEP), None)
    if step is None:
        raise ValueError("the profile holds no whole step")
    inside = [
        e for e in ordered
        if e.thread == step.thread
        and e.time_range.start >= step.time_range.start
        and e.time_range.end <= step.time_range.end
    ]  # fmt: skip
    profile = StepProfile(step_seconds=_seconds(step))
    nodes: dict[int, Place] = {}
    stack: list[Open] = []

    def close() -> None:
        done = stack.pop()
        profile.seconds[done.place.part, done.phase] += done.own

    for event in inside:
        while stack and event.time_range.start >= stack[-1].end:
            close()
        outer = stack[-1] if stack else Open(0.0, Place(ELSE), PHASES[-1], 0.0)
        place, phase = _placed(event, outer.place, outer.phase, nodes)
        seconds, product = _seconds(event), None if outer.in_product else _product(event)
        if product is not None:
            place = _of_product(product, place, tokens)
            profile.products[place.part][phase, product].append(seconds)
        if event.sequence_nr >= 0 and "Backward" not in event.name:
            # The last operation with a number is the one that made the node.
            nodes[event.sequence_nr] = place
        outer.own -= seconds
        in_product = outer.in_product or product is not None
        stack.append(Open(event.time_range.end, place, phase, seconds, in_product))
    while stack:
        close()
    return profile


def _seconds(event: Any) -> float:
    return float(event.time_range.end - event.time_range.start) / 1e6


def _placed(event: Any, place: Place, phase: str, nodes: dict[int, Place]) -> tuple[Place, str]:
    """Return an event's place and phase, given those of the event around it."""
    name: str = event.name
    if name.startswith(PHASE):
        return Place(ELSE), name.removeprefix(PHASE)
    if name.startswith(NODE):
        return nodes.get(event.sequence_nr, Place(ELSE)), phase
    if name.startswith(SCOPE):
        # These two are called outside of the layers whose modules they use.
        if place.part in ("soft_prompt", "graph_encoder"):
            return place, phase
        part, *weights = name.removeprefix(SCOPE).split("@")
        sizes = [weight.split(",") for weight in weights]
        return Place(part, tuple((int(inner), int(outer)) for inner, outer in sizes)), phase
    for beginning, part in RECORDED.items():
        if name.startswith(beginning):
            return Place(part), phase
    return place, phase


def _product(event: Any) -> Product | None:
    first = PRODUCTS.get(event.name)
    shapes: Sequence[Any] = event.input_shapes or ()
    if first is None or len(shapes) < first + 2:
        return None
    left, right = shapes[first], shapes[first + 1]
    return Product(left[0], left[1], right[1]) if len(left) == len(right) == 2 else None


def _of_product(product: Product, place: Place, tokens: set[int]) -> Place:
    """Return where a product belongs: in a layer with LoRA, to the layer's weight or to LoRA."""
    if place.part != "lora":
        return place
    sizes = (product.inner, product.columns)
    if product.rows in tokens and {sizes, sizes[::-1]} & {*place.weights}:
        return Place("backbone_products")
    return place
