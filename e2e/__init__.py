"""A real Kubernetes cluster on one machine, and the tests and the demo that run on it.

Nothing here is shipped. `prepare` fetches and builds what is needed, once per version, into the
user's cache folder: `build` the control plane, `tools` kubectl and helm, `models` the models.
`cluster` starts and stops the control plane inside private namespaces, `agent` is the node
agent that runs every pod as processes, `conftest` gives tests their fixtures. Read in that order.
"""
