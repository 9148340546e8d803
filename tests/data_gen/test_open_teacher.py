"""A trained writer as a teacher: what its folder says of it, and which folders are refused."""

from pathlib import Path

import pytest

from data_gen.hotpot_subq.run import PromptLimit
from data_gen.teacher.open_teacher import TeacherError, writer_teacher
from inference.engines.contract import EngineOptions, Request
from inference.opening.components import Component, helper_requests
from tests.components import helper_component, t2t_component
from tests.tiny import tiny_backbone

OPTIONS = EngineOptions("transformers", dtype="float32")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("teacher") / "backbone")


def test_a_writer_is_sent_no_more_than_it_was_trained_on(backbone: Path, tmp_path: Path) -> None:
    writer = helper_component(tmp_path / "writer", backbone, "subquery")
    teacher = writer_teacher(writer, OPTIONS)
    assert teacher.max_prompt_tokens is not None
    limit = PromptLimit(teacher.max_prompt_tokens, teacher.count_tokens)
    as_trained = helper_requests(Component.open(writer), "subquery")
    longest = "x" * teacher.max_prompt_tokens  # a token is a byte
    assert len(as_trained(longest).input_ids or ()) == 300
    assert limit.fits(Request(prompt=longest))
    assert not limit.fits(Request(prompt=longest + "x"))


def test_only_a_sub_query_writer_is_a_teacher(backbone: Path, tmp_path: Path) -> None:
    folders = {
        "helper for 'decompose'": helper_component(tmp_path / "decompose", backbone),
        "holds the component 't2t'": t2t_component(tmp_path / "t2t", backbone),
        "no such folder": tmp_path / "none",
    }
    for said, folder in folders.items():
        with pytest.raises(TeacherError, match=said):
            writer_teacher(folder, OPTIONS)
