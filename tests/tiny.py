"""A random tokenizer and language model, small enough that a test takes no time."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of 259 tokens with BOS, EOS and padding."""
    specials = ["<pad>", "<s>", "</s>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def tiny_llama(seed: int = 0, hidden_size: int = 64, num_layers: int = 2) -> LlamaForCausalLM:
    """A random Llama over `tiny_tokenizer`'s vocabulary, in float32 and eval mode."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def tiny_backbone(folder: Path, seed: int = 0, hidden_size: int = 64) -> Path:
    """Save a tiny model and its tokenizer; the folder serves as a backbone's name."""
    tiny_llama(seed, hidden_size).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_encoder(folder: Path, seed: int = 0) -> Path:
    """Save a random BERT of two layers and its tokenizer; the folder serves as a backbone's name.

    A token is a letter or a sign; texts are lower-cased, as all-MiniLM-L6-v2's are.
    """
    signs = "abcdefghijklmnopqrstuvwxyz0123456789.,?:;-'"
    pieces = [*signs, *(f"##{sign}" for sign in signs)]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: number for number, token in enumerate([*specials, *pieces])}
    BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        pad_token_id=0,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
