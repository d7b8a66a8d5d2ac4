"""A vLLM that lacks one of the names that Tenantry relies on, for the tests of the way back.

Not imported by anybody: put this folder on `PYTHONPATH` of a vLLM, which finds
`tenantry_saboteur` in it as a plugin.
"""
