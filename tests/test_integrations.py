"""The distributions of integrations/, whose own tests `make test-integrations` runs."""

from tests.processes import ROOT

CLIENTS = sorted(ROOT.glob("integrations/*/**/client.py"))


def test_both_distributions_carry_the_same_client() -> None:
    assert len(CLIENTS) == 2
    first, second = (path.read_bytes() for path in CLIENTS)
    assert first == second, f"copy the newer of {CLIENTS[0]} and {CLIENTS[1]} over the other"
