"""What one piece of a streamed answer is, told from its first bytes. No JSON is parsed.

vLLM sends one event a message: `data: {...}` for completions and chat, `event: NAME` in front of it
for the responses and messages interfaces, `: ...` for a sign of life.
"""

from enum import Enum, auto
from typing import Final

_END: Final = b"data: [DONE]"
_ERROR: Final = (b'data: {"error"', b"event: error")
# The first frame of a chat names the role and comes with the first token's frame; the last one of a
# completion holds the usage and no choice.
_EMPTY: Final = (b'"role":"assistant","content":""', b'"choices":[]')
_SCAN: Final = 400


class Frame(Enum):
    """What a frame is to somebody who waits for tokens."""

    TOKEN = auto()
    ERROR = auto()
    OTHER = auto()


def frame(body: bytes) -> Frame:
    """The kind of a frame."""
    if body.startswith(_ERROR):
        return Frame.ERROR
    if body.startswith(b"data:"):
        head = body[:_SCAN]
        if head.startswith(_END) or any(empty in head for empty in _EMPTY):
            return Frame.OTHER
        return Frame.TOKEN
    if body.startswith(b"event:"):
        name = body[6 : body.find(b"\n")].strip()
        return Frame.TOKEN if name.endswith(b"delta") and name != b"message_delta" else Frame.OTHER
    return Frame.OTHER
