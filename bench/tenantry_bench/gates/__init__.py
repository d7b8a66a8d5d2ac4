"""The gate table: what Tenantry promises, measured with the simulator, and whether it is reached.

Read in this order: `claims` (a row of the table: the bound, then the value), `estimate` (pooled
values and bootstrap intervals, pure), `jobs` (the runs that rows are made of), `evidence` (what one
run showed), `groups` (every gate: its runs and its arithmetic, in `neighbour`, `weights`,
`clients`, `order`, `tiers`, `fidelity`, `costs` and, small, `smoke`), `perform` (does a job;
imports vLLM), `cache` and `work` (two at a time, kept on disk), `report` and `pictures` (ways to
show it), `main` (the command).
"""
