"""Trivium's text-to-triples component in LlamaIndex."""

from llama_index.extractors.trivium.base import TriviumTripletExtractor
from llama_index.extractors.trivium.client import TriviumBusyError, TriviumError

__all__ = ["TriviumBusyError", "TriviumError", "TriviumTripletExtractor"]
