"""`tenantry simulate`: the real vLLM scheduler, with and without Tenantry, under a virtual clock.

Read in this order: `scenario` (who sends what) and `catalogue` (the table of scenarios), `arrivals`
(their requests, from a seed), `profiles` (what a step takes on a GPU), `drive` (one scheduler and
the clock) and `record` (what it writes down), `options`, `contest` and `arms` (which scheduler),
`oracle` (what a plugin cannot know, for comparison), `runner` (one run), `measure` and `shares`
(numbers of it), `show`, `pictures` and `page` (ways to show them), `command` and `main` (the
command). `public` and `traces` are other sources of load; `fit` and `sources` make profiles,
`fidelity` compares with real runs. `drive`, `arms`, `runner` and what stands on them import vLLM,
which takes seconds.
"""
