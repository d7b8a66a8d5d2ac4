import pytest

from tenantry_engine.frames import Frame, frame


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'data: {"id":"c","choices":[{"index":0,"text":" aab"}]}\n\n', Frame.TOKEN),
        (b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', Frame.TOKEN),
        (b'data: {"choices":[{"delta":{"content":"say \\"choices\\":[]"}}]}\n\n', Frame.TOKEN),
        (b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n', Frame.OTHER),
        (b'data: {"id":"c","choices":[],"usage":{"total_tokens":3}}\n\n', Frame.OTHER),
        (b"data: [DONE]\n\n", Frame.OTHER),
        (b'data: {"error":{"message":"engine died","code":500}}\n\n', Frame.ERROR),
        (b": keep-alive\n\n", Frame.OTHER),
        (b"", Frame.OTHER),
        (b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n', Frame.TOKEN),
        (b'event: response.completed\ndata: {"delta":"a"}\n\n', Frame.OTHER),
        (b'event: content_block_delta\ndata: {"delta":{}}\n\n', Frame.TOKEN),
        (b'event: message_delta\ndata: {"usage":{}}\n\n', Frame.OTHER),
        (b'event: error\ndata: {"type":"error"}\n\n', Frame.ERROR),
    ],
)
def test_a_frame_is_told_by_its_first_bytes(body: bytes, kind: Frame) -> None:
    assert frame(body) is kind
