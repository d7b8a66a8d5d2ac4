"""Decisions only: values in, values out.

What belongs here: the arithmetic of shares, budgets and orders, and the words it is said in. What
does not: I/O, clocks, randomness, logging, and any type of the API or of an engine; time and chance
come in as arguments.

Read in this order. Who claims what: `tenants` (weights as a user types them), `shares` (weighted
max-min division). On the cluster: `slices` (what a GPU is cut into), `placement` (which node can
take a pod). In the engine: `ledger` (what each tenant was given), `foresight` (what its decodes
will take), `ordering` (whose turn it is), `lengths` (how much a request will make), `growth` and
`pace` (what may begin while the KV cache is full), `stepmodel`, `budget` and `probes` (how much one
step may carry), `revision` (what wrong prices took). In reports: `quantiles`.
"""
