"""The local cluster: one control plane and one node agent inside private namespaces.

`handle` has the class `Cluster` that tests and commands use; `main` is the command line. On the
host's side `namespaces` says how to enter, `processes` who still lives, `layout` where each file
of a run lies, `certificates` and `settings` write those files. Inside, `inner` is process 1: it
starts the `components` in order, waits by `api`, answers `proxy` and dies with any of them.
"""
