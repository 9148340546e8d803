"""What bounds a request before the engine has it: the server's deadline, and the Host header."""

import argparse
from pathlib import Path

import pytest
from aiohttp import ClientSession

import inference.serve
from inference.engines.transformers.engine import TransformersEngine
from inference.serving.middlewares import AllowedHosts
from inference.serving.server import ModelServer, model_names
from tests.inference.local_server import listening
from tests.inference.test_serve_stopping import StubEngine
from tests.tiny import tiny_backbone

NAMES = model_names("m", [])
BODY = {"model": "m", "prompt": "x"}


async def test_a_request_that_names_no_deadline_gets_the_server_s(tmp_path: Path) -> None:
    engine = TransformersEngine(str(tiny_backbone(tmp_path / "m")), dtype="float32", device="cpu")
    server = ModelServer(engine, NAMES, deadline_seconds=0.05)
    body = {**BODY, "max_tokens": 3000, "temperature": 0}
    async with listening(server) as address, ClientSession() as session:
        async with session.post(f"{address}/v1/completions", json=body) as response:
            error = (await response.json())["error"]
        assert (response.status, response.headers["x-should-retry"]) == (504, "false")
        assert (error["code"], error["type"]) == ("deadline_exceeded", "server_error")
        assert error["message"].startswith("not answered within 0.05 seconds; ")
        assert "--deadline" in error["message"]
        assert (server.running, server.metrics.counts.failed) == (0, 1)
    await engine.close()


@pytest.mark.parametrize(
    ("own", "given", "wanted"),
    [
        (None, {}, None),
        (9.0, {}, 9.0),
        (9.0, {"deadline_seconds": 3}, 3.0),
        (9.0, {"deadline_seconds": 30}, 9.0),
        (None, {"deadline_seconds": 30}, 30.0),
    ],
)
async def test_the_shortest_deadline_holds(
    own: float | None, given: dict[str, float], wanted: float | None
) -> None:
    engine = StubEngine()
    engine.go_on.set()
    server = ModelServer(engine, NAMES, deadline_seconds=own)
    async with listening(server) as address, ClientSession() as session:
        async with session.post(f"{address}/v1/completions", json=BODY | given) as response:
            assert response.status == 200
        headers = {"X-Deadline-Seconds": "20"}
        url = f"{address}/v1/completions"
        async with session.post(url, json=BODY | given, headers=headers) as response:
            assert response.status == 200
    assert [each.deadline_seconds for each in engine.requests] == [wanted, min(wanted or 20, 20)]


async def test_a_host_that_is_not_this_server_is_refused() -> None:
    engine = StubEngine()
    engine.go_on.set()
    server = ModelServer(engine, NAMES, allowed_hosts=["0.0.0.0", "models.lab"])
    cases = [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("models.lab", 200),
        ("Models.Lab.:443", 200),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.models.lab", 403),
        ("0.0.0.0:8000", 403),
        ("192.0.2.7", 403),
        ("", 403),
        ("[", 403),
    ]
    async with listening(server) as address, ClientSession() as session:
        for host, status in cases:
            headers = {"Host": host}
            async with session.get(f"{address}/v1/models", headers=headers) as response:
                assert response.status == status, host
                answer = await response.json()
            if status == 403:
                assert answer["error"]["code"] == "host_not_allowed"
                assert "--allowed-host NAME" in answer["error"]["message"]
            async with session.post(
                f"{address}/v1/completions", json=BODY, headers=headers
            ) as response:
                assert response.status == status, host
    assert len(engine.requests) == sum(status == 200 for _, status in cases)


def test_the_address_that_a_client_reached_is_allowed() -> None:
    hosts = AllowedHosts(["::", "fe80::7", "10.0.0.9"])
    assert hosts.allows("10.0.0.5:80", "10.0.0.5")
    assert hosts.allows("10.0.0.5", "::ffff:10.0.0.5")
    assert hosts.allows("[2001:db8::1]:80", "2001:db8::1")
    assert hosts.allows("[fe80::7]", "127.0.0.1") and hosts.allows("10.0.0.9", "127.0.0.1")
    assert not hosts.allows("10.0.0.6", "10.0.0.5")
    assert not hosts.allows("[::]", "127.0.0.1")


def test_the_options() -> None:
    parser = inference.serve._parser()
    assert parser.parse_args([]).deadline == 600
    given = parser.parse_args(["--deadline", "0", "--allowed-host", "a.b", "--allowed-host", "::1"])
    assert (given.deadline, given.allowed_host) == (0, ["a.b", "::1"])
    for wrong in (["--deadline", "-1"], ["--deadline", "nan"], ["--allowed-host", "http://a"]):
        with pytest.raises((SystemExit, argparse.ArgumentError)):
            parser.parse_args(wrong)
    with pytest.raises(SystemExit):
        parser.parse_args(["--allowed-host", "a.b:80"])
