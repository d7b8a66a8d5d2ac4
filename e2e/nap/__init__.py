"""What a machine with two cores needs of vLLM, as a vLLM plugin of the test set-up alone.

Put this folder on PYTHONPATH of `vllm serve` (the image map and `e2e.demo` do); it is on nobody's
path otherwise and in no wheel. See `tenantry_nap`.
"""
