"""Rows as one HTML file that needs nothing beside it: picture, table, how it was measured."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from tenantry_bench.picture import png
from tenantry_bench.table import render

if TYPE_CHECKING:
    from tenantry_bench.results import About
    from tenantry_bench.table import Shown

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:100rem;padding:0 1rem}}
img{{max-width:100%}} pre{{overflow-x:auto;font-size:13px;background:#f6f8fa;padding:1rem}}</style>
</head><body>
<h1>{title}</h1>
<p>{sentence}</p>
<img alt="Latency percentiles and tokens per second for each tenant and arm"
src="data:image/png;base64,{picture}">
<pre>{table}</pre>
<p>Made by <code>{command}</code>, Tenantry {version}{server}.</p>
</body></html>
"""


def page(shown: Shown, about: About, title: str, sentence: str = "") -> str:
    """Return the report as one HTML document."""
    return PAGE.format(
        title=escape(title),
        sentence=escape(sentence),
        picture=base64.b64encode(png(shown.rows, title)).decode(),
        table=escape(render(shown)),
        command=escape(about.command),
        version=escape(about.version),
        server=escape(f", server vLLM {about.server}" if about.server else ""),
    )
