"""How well a text-to-triples model writes triples (RAS App. D.1)."""

from collections.abc import Sequence
from typing import Any

from accelerate import Accelerator

from evaluation.text import rouge_scores
from evaluation.triples import score_triples
from models.formats.records import TriplesSample
from models.formats.triples import format_triples, parse_triples
from models.text_to_triples import TextToTriples
from models.text_to_triples_processor import TextToTriplesProcessor
from training.validation import generate_texts, pad_left


def generate_triples(
    module: TextToTriples,
    processor: TextToTriplesProcessor,
    texts: Sequence[str],
    batch_size: int,
    accelerator: Accelerator,
) -> list[str]:
    """Greedy output for each text, in the texts' order."""
    prompts = [processor.encode_prompt(text).input_ids for text in texts]
    tokenizer = processor.tokenizer

    def generate(indices: list[int]) -> list[str]:
        input_ids, mask = pad_left([prompts[i] for i in indices], int(tokenizer.pad_token_id))
        output = module.generate(
            input_ids.to(accelerator.device),
            mask.to(accelerator.device),
            max_new_tokens=processor.max_target_tokens,
            do_sample=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        start = 0 if processor.is_encoder_decoder else input_ids.shape[1]
        return [processor.decode(row) for row in output[:, start:].tolist()]

    lengths = [len(prompt) for prompt in prompts]
    return generate_texts(module, lengths, generate, batch_size, accelerator)


def score_t2t(outputs: Sequence[str], samples: Sequence[TriplesSample]) -> dict[str, float]:
    """Exact and subject-object precision, recall and F1 (micro), ROUGE-1/2/L, malformed triples."""
    parsed = [parse_triples(output) for output in outputs]
    scores = score_triples([p.triples for p in parsed], [s.triples for s in samples])
    rouge = rouge_scores(outputs, [[format_triples(s.triples)] for s in samples])
    figures: dict[str, Any] = {
        f"triple_{name}": value for name, value in scores.exact.as_dict().items()
    }
    figures["entity_pair_f1"] = scores.partial.f1
    figures.update({name: rouge[name] for name in ("rouge1", "rouge2", "rougeL")})
    figures["malformed_triples"] = float(sum(p.malformed for p in parsed))
    return figures
