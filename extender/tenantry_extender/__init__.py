"""The scheduler extender: what kube-scheduler asks about GPU pods, and the answers.

Read in this order: `manifests` (Kubernetes objects -> values), `snapshot` (the cluster as one
immutable value, and whose turn it is), `holds` and `books` (how the snapshot changes), `verbs`
(question + snapshot -> answer), `wire` and `server` (HTTP), `watch` (list+watch -> books), `poke`
and `patience` (what happens without being asked), `metrics`, `main`. Only `cluster` talks to
Kubernetes.
"""
