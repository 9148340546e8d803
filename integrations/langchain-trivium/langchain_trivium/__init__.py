"""Trivium's retrieval loops in LangChain."""

from langchain_trivium.client import TriviumBusyError, TriviumError
from langchain_trivium.retrievers import TriviumRetriever

__all__ = ["TriviumBusyError", "TriviumError", "TriviumRetriever"]
