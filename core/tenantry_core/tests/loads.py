"""What a payer, or a whole step, may ask of the engine, for property tests."""

from hypothesis import strategies as st

from tenantry_core.stepmodel import Load

LOADS = st.builds(
    Load,
    prefill=st.integers(0, 2048),
    decodes=st.integers(0, 256),
    context=st.integers(0, 200_000),
    work=st.floats(0.0, 1e7),
)
