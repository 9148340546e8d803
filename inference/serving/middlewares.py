"""Around every handler of the server: the host's name, failures as error objects, counts."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from inference.serving.answers import ApiError, internal_error
from inference.serving.metrics import Metrics

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
logger = logging.getLogger(__name__)

GUARDED = "/v1/"


def host_name(text: str) -> str:
    """Return name in a Host header: lower case, no port, no brackets; empty where there is none."""
    try:
        return (urlsplit(f"//{text.strip()}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def address_of(name: str) -> Address | None:
    """Return the address that a name is, None for a name; an IPv4 address in IPv6 is the former."""
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
        """Return whether a request may name `host`; `reached`: this end of its connection."""
        name = host_name(host)
        address = address_of(name)
        if address is None:
            return name == "localhost" or name in self._names
        return address.is_loopback or address in self._addresses or address == address_of(reached)


def failures_as_json(metrics: Metrics, max_body_bytes: int) -> Middleware:
    """Makes every failure an error object, and counts it."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as raised:
            error = raised
        except web.HTTPException as raised:
            error = _of_http(raised, request, max_body_bytes)
        except Exception:
            logger.exception("a request failed")
            error = internal_error()
        if error.status >= 500:
            metrics.failed()
            logger.warning("%s %d: %s", request.path, error.status, error.message)
        else:
            metrics.refused()
        return web.json_response(error.body(), status=error.status, headers=error.headers)

    return answer


def host_check(allowed: AllowedHosts) -> Middleware:
    """Refuses requests for a host that is none of this server's names."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        assert request.transport is not None
        reached = str(request.transport.get_extra_info("sockname")[0])
        for host in request.headers.getall("Host", []):
            if not allowed.allows(host, reached):
                message = f"Host: {host[:80]!r} is no name of this server; "
                message += "use its address, or start it with --allowed-host NAME"
                raise ApiError(403, message, "Host", "host_not_allowed")
        return await handler(request)

    return check


def key_check(api_key: str) -> Middleware:
    """Refuses callers of /v1 without the key."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(GUARDED) and not has_key(request, api_key):
            message = "no key or a wrong one; send Authorization: Bearer KEY"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, message, "Authorization", "invalid_api_key", headers)
        return await handler(request)

    return check


def has_key(request: web.Request, api_key: str) -> bool:
    """Return whether a request brings the key; compares in a time that tells nothing of it."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    same = hmac.compare_digest(_key_bytes(given), _key_bytes(api_key))
    return scheme.lower() == "bearer" and same


def _key_bytes(key: str) -> bytes:
    return key.strip().encode("utf-8", "surrogateescape")


def _of_http(raised: web.HTTPException, request: web.Request, max_body_bytes: int) -> ApiError:
    if isinstance(raised, web.HTTPRequestEntityTooLarge):
        return ApiError(413, f"the body is above {max_body_bytes} bytes; send fewer prompts a call")
    message = f"{request.method} {request.path}: {raised.reason}; docs/serving.md has the paths"
    headers = {"Allow": raised.headers["Allow"]} if "Allow" in raised.headers else None
    return ApiError(raised.status, message, headers=headers)
