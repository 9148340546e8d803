"""A random language model with a byte tokenizer, and passages for it: nothing to download."""

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from models.formats.records import TriplesSample, write_records
from models.formats.triples import Triple

SPECIALS = ("<pad>", "<s>", "</s>")
HEAD_SIZE = 32


def write_model(folder: Path, width: int, layers: int, seed: int) -> None:
    """Write a random Llama and its tokenizer, one token a byte.

    Args:
        width: a multiple of 32, the size of a head.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD_SIZE,
        num_key_value_heads=width // HEAD_SIZE,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def write_samples(path: Path, count: int, seed: int) -> None:
    """Write text-to-triples samples of one to four sentences, about 150 to 300 tokens each."""
    draw = random.Random(seed)
    samples = []
    for number in range(count):
        facts = [
            Triple(f"Ada{draw.randrange(1000)}", "lives in", f"City{draw.randrange(1000)}")
            for _ in range(draw.randrange(1, 5))
        ]
        text = " ".join(f"{fact.subject} lives in {fact.object}." for fact in facts)
        samples.append(TriplesSample(f"t{number}", text, facts))
    write_records(path, samples)
