"""One HTTP request at the door, while it lasts: its times, and how it ended.

It stands between the server and vLLM, passes every message on at once, and keeps nothing of them.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from tenantry_engine.door_metrics import End, Series
from tenantry_engine.frames import Frame, frame

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_ERRORS = 400


class Exchange:
    """`receive` and `send` of one request, measured. `clock` is monotonic, in seconds."""

    __slots__ = (
        "_clock",
        "_done",
        "_erred",
        "_gone",
        "_last",
        "_receive",
        "_send",
        "_series",
        "_started",
        "_status",
        "_streams",
    )

    def __init__(
        self, receive: Receive, send: Send, series: Series, clock: Callable[[], float]
    ) -> None:
        self._receive = receive
        self._send = send
        self._series = series
        self._clock = clock
        self._started = clock()
        self._last: float | None = None
        self._status = 0
        self._streams = self._gone = self._done = self._erred = False

    async def receive(self) -> Message:
        """The next message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._done:
            self._gone = True
        return message

    async def send(self, message: Message) -> None:
        """The next message to the client; times are those at which vLLM hands it over."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._streams = _streams(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            if self._streams:
                self._measure(message.get("body", b""))
            self._done = not message.get("more_body", False)
        await self._send(message)

    def close(self, waits: Iterable[Any], cancelled: bool = False) -> End:
        """Count the request. `waits` are vLLM's times of its parts."""
        end = self._end(cancelled)
        self._series.ends[end].inc()
        if end is End.OK:
            self._series.e2e.observe(self._clock() - self._started)
        for times in waits:
            queued, scheduled = _moment(times, "queued_ts"), _moment(times, "scheduled_ts")
            if scheduled > 0 and queued > 0:
                self._series.queue.observe(max(0.0, scheduled - queued))
        return end

    def _end(self, cancelled: bool) -> End:
        if cancelled or self._gone:
            return End.ABORTED
        if self._erred or not self._done or self._status >= _ERRORS:
            return End.FAILED
        return End.OK

    def _measure(self, body: bytes) -> None:
        kind = frame(body)
        if kind is Frame.TOKEN:
            now = self._clock()
            if self._last is None:
                self._series.ttft.observe(now - self._started)
            else:
                self._series.itl.observe(now - self._last)
            self._last = now
        elif kind is Frame.ERROR:
            self._erred = True


def _streams(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in headers
    )


def _moment(times: Any, name: str) -> float:
    """One of vLLM's times of a request; 0 where it has not come, or vLLM has no such time."""
    return float(getattr(times, name, 0.0))
