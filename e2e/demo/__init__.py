"""The main job, end to end, on a machine without a GPU: `python -m e2e.demo`.

Read in this order: `arms` (what is measured, and the load on each arm), `gates` (what must hold),
`show` (table, sentence, picture, results), `policies` (the examples with this machine's overlay),
`kube` (the arms on a local cluster) and `engines` (the same without Kubernetes), `main`.
"""
