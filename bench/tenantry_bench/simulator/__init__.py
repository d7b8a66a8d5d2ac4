"""`tenantry simulate`: the real vLLM scheduler, with and without Tenantry, under a virtual clock.

Read in this order: `scenario` (who sends what) and `catalogue` (the table of scenarios), `arrivals`
(their requests, from a seed), `profiles` (what a step takes on a GPU), `drive` (one scheduler and
the clock), `options` and `arms` (which scheduler), `oracle` (what a plugin cannot know, for
comparison), `runner` (one run), `measure` (numbers of it), `show` (the table), `main` (the
command). `fit` makes profiles. A module that imports the engine imports vLLM, which takes seconds.
"""
