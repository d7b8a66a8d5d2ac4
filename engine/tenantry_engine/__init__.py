"""What runs inside a vLLM process: who is calling, whose turn it is, and the figures about both.

Belongs here: the adapter between the decisions of `tenantry_core` and vLLM. Only the modules that
the import contract in `pyproject.toml` names may import vLLM; everything else takes plain values.

Read it in this order: `config` (what the policy says to an engine) and `reload` (how a change
arrives); the HTTP side: `identity` (who is calling), `door`, `exchange`, `frames` and
`door_metrics`, then `tagging` (how the tenant gets to the engine); the engine side: `scheduler`
(the factory) and `seams`, `fair` (the mixin), `conductor`, `turn`, `gate`, `waiting`, `book`,
`presence`, `translate` and `metrics`; and `plugin` and
`startup` (how vLLM finds the package).
"""
