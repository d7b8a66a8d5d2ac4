"""The operator: makes of every `TenantServingPolicy` a ConfigMap, a Deployment and a Service, and
tells in its status what became of them.

What belongs here: what should exist (`desired`), what has to be done (`changes`), how it is told
(`status`), and the loop around them. No fairness arithmetic, and no module but `cluster` talks to
the Kubernetes API (kopf brings the watch events).

Read `reconcile` first (the only function that calls all the others), then `desired`, `changes`,
`status`, then `handlers` and `main`, which feed and run it.
"""
