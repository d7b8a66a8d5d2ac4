"""The load generator and its reports: what the tenants of an endpoint get, measured from outside.

Read in this order: `load` (the load file, checked), `recorded` (a trace), `plan` (who sends what
and when, from a seed), `sse` and `client` (one streamed request), `drive` (all of them, in time),
`results` (the document), `table`, `picture` and `report` (ways to show it), `main` (the command).
`cluster` alone knows Kubernetes. Nothing here knows the engine: it is measured like any server.
"""
