"""HTTP CONNECT: the way from the host's network into the sandbox's."""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from e2e.cluster.addresses import REACHABLE

CHUNK = 1 << 16
CONNECT_SECONDS = 30.0


class Refused(ValueError):
    """A request that the proxy does not serve; `status` is the HTTP status line's rest."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


async def serve(sockets: Iterable[socket.socket]) -> list[asyncio.Server]:
    """Answer CONNECT on every listening socket."""
    return [await asyncio.start_server(_answer, sock=listener) for listener in sockets]


def target(request_line: str) -> tuple[str, int]:
    """Host and port of a CONNECT request; only pods, Services and the API server are served."""
    method, _, rest = request_line.partition(" ")
    if method != "CONNECT":
        raise Refused("405 only CONNECT is served")
    host, _, port = rest.partition(" ")[0].rpartition(":")
    try:
        address, number = ip_address(host), int(port)
    except ValueError:
        raise Refused("400 an address and a port are needed") from None
    if not any(address in network for network in REACHABLE):
        raise Refused("403 only pod and Service addresses are served")
    return host, number


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        host, port = target(head.split(b"\r\n", 1)[0].decode("latin-1"))
        async with asyncio.timeout(CONNECT_SECONDS):
            upstream = await asyncio.open_connection(host, port)
    except Refused as refused:
        await _refuse(writer, refused.status)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await _refuse(writer, "502 no connection")
    else:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer))
        upstream[1].close()
        writer.close()


async def _refuse(writer: asyncio.StreamWriter, status: str) -> None:
    try:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
    except OSError:
        return
    finally:
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the reader's side has said all, then say so to the other side."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()
