"""A sentence encoder without a model that keeps the words of a world's propositions apart."""

from models.sentence_encoder import HashEncoder


class WideHashEncoder(HashEncoder):
    """`HashEncoder` with room for every feature; good enough to find what shares words."""

    name = "wide-hash"
    dimension = 1024
    fingerprint = "1024-hash-1"
