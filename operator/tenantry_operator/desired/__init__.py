"""From a policy to manifests: pure functions, one module per kind of child.

What belongs here: what a child should look like. Nothing here knows what exists in the cluster.
Read `children` first (all of them at once), then `deployment`, `pod` and what the pod is made of:
`model`, `gpu`.
"""
