"""Scenarios as one HTML file that needs nothing beside it: pictures, tables, how it was made."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.results import About

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tenantry: simulated</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:100rem;padding:0 1rem}}
img{{max-width:100%}} pre{{overflow-x:auto;font-size:13px;background:#f6f8fa;padding:1rem}}</style>
</head><body>
<h1>Simulated, not measured on a GPU</h1>
{sections}
<p>Made by <code>{command}</code>, Tenantry {version}, scheduler of vLLM {server}.</p>
</body></html>
"""
SECTION = """<h2>{title}</h2>
<p>{sentence}</p>
<img alt="Latency percentiles and service over time for each tenant and arm of {title}"
src="data:image/png;base64,{picture}">
<pre>{table}</pre>
"""


@dataclass(frozen=True)
class Section:
    """One scenario: its title, how it was run, the picture as PNG, the table as text."""

    title: str
    sentence: str
    picture: bytes
    table: str


def page(sections: Sequence[Section], about: About) -> str:
    """Return the report as one HTML document."""
    body = [
        SECTION.format(
            title=escape(each.title),
            sentence=escape(each.sentence),
            picture=base64.b64encode(each.picture).decode(),
            table=escape(each.table),
        )
        for each in sections
    ]
    return PAGE.format(
        sections="\n".join(body),
        command=escape(about.command),
        version=escape(about.version),
        server=escape(about.server or "unknown"),
    )
