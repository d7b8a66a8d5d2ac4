"""What runs inside a vLLM process: who is calling, whose turn it is, and the figures about both.

Belongs here: the adapter between the decisions of `tenantry_core` and vLLM. Only the modules that
the import contract in `pyproject.toml` names may import vLLM; everything else takes plain values.

Read it in this order: `config` (what the policy says to an engine), `reload` (how a change
arrives), `identity` (who is calling), `door` (the HTTP side), `translate`, `seams`, `waiting`,
`book` and `scheduler` (the engine side), `metrics` (what both show), `plugin` (the hook by which
vLLM finds the package).
"""
