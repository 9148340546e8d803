"""The names under which a server may be asked, against DNS rebinding.

A page in a browser can have its own name resolve to this machine and so read what the server
answers; the Host header then still has that name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def host_name(text: str) -> str:
    """The name in a Host header: lower case, no port, no brackets; empty where there is none."""
    try:
        return (urlsplit(f"//{text.strip()}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def address_of(name: str) -> Address | None:
    """The address that a name is, None for a name; an IPv4 address in IPv6 is the former."""
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class AllowedHosts:
    """localhost, loopback addresses, the address that a client reached, and names given."""

    def __init__(self, names: Iterable[str]) -> None:
        """names: as a Host header has them; a wildcard address allows nothing."""
        known = {host_name(f"[{name}]" if ":" in name else name) for name in names}
        addresses = {name: address_of(name) for name in known}
        self._names = {name for name, address in addresses.items() if address is None} - {""}
        self._addresses = {a for a in addresses.values() if a and not a.is_unspecified}

    def allows(self, host: str, reached: str) -> bool:
        """Whether a request may name `host`; `reached`: this machine's end of its connection."""
        name = host_name(host)
        address = address_of(name)
        if address is None:
            return name == "localhost" or name in self._names
        return address.is_loopback or address in self._addresses or address == address_of(reached)
