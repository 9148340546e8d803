"""LangChain's standard tests of retrievers."""

from typing import Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_trivium import TriviumRetriever
from stand_in import LOOP, QUESTION


class TestTriviumRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _address(self, address: str) -> None:
        self.address = address

    @property
    def retriever_constructor(self) -> type[TriviumRetriever]:
        return TriviumRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"base_url": self.address, "model": LOOP}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION
