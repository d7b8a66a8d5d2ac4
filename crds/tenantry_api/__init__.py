"""The resource `TenantServingPolicy`: what it looks like, what it means when a field is left out,
what may be written and what is refused.

What belongs here: types, names, defaults, rules and the documents made of them. No cluster, no
engine, no clock: a part reads or writes a policy only through this package, so that a file without
a cluster and an object in one get the same answer.

Read in this order: `names` (every label, path and variable once), `values` (quantity, duration, the
base of all types), `choices` (the enums), `gpu`, `engine`, `tenant`, `policy` and `status` (the
types), `rules` (what no type can say, once for the API server and once for files), `defaults`,
`parse` (a document becomes a policy, or a list of findings), `document` (the canonical bytes and
their hash), `conditions`, `enforcement` (what this version does not do yet), and last `crd`, which
writes the CustomResourceDefinition from all of them, and `reference`, which writes its page.
"""
