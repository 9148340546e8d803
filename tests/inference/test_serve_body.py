"""Bodies of requests that hold anything at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.contract import InvalidRequestError, Request
from inference.serving.answers import ApiError
from inference.serving.request_body import ChatBody, CompletionBody, parse_body
from inference.serving.server import model_names

FIELDS = [*CompletionBody.model_fields, "messages", "n", "stream", "prompt_embeds", "other"]
MESSAGES = [{"role": "user", "content": ""}]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON), st.booleans())
def test_no_body_breaks_the_parser(fields: dict[str, Any], whole: bool) -> None:
    if whole:
        fields = {"model": "m", "prompt": "x", "messages": MESSAGES} | fields
    data = json.dumps(fields).encode()
    for kind in (CompletionBody, ChatBody):
        try:
            requests = parse_body(kind, data).requests(None, None)
        except ApiError as error:
            assert error.status == 400
        else:
            assert all(isinstance(request, Request) for request in requests)


def test_two_models_of_one_name() -> None:
    with pytest.raises(InvalidRequestError, match="--backbone-name"):
        model_names("ras", ["t2t", "ras"])
