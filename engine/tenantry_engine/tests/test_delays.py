from dataclasses import dataclass

import pytest

from tenantry_core.stepmodel import Load
from tenantry_engine.delays import EVERY, Delays

STEP, TOKEN = 0.01, 0.0001


class Model:
    """A step costs a fixed time, and each prompt token some."""

    def predict(self, load: Load) -> float:
        return STEP + TOKEN * load.prefill


@dataclass
class Running:
    request_id: str
    tenant: str
    num_prompt_tokens: int = 100
    num_output_tokens: int = 0
    is_prefill_chunk: bool = False


def delays(share: float = 0.5) -> Delays:
    model: object = Model()
    made = Delays(
        model,  # type: ignore[arg-type] # only what is asked here
        lambda request: str(request.tenant),
        lambda _: Load(decodes=1),
    )
    made.reset(lambda _: share)
    return made


def test_a_token_is_late_by_what_it_comes_after_the_tenant_alone_on_its_share() -> None:
    asked, one = delays(0.5), Running("a", "quiet", num_output_tokens=10)
    asked.arrived(one, 5.0)
    due = 5.0 + (STEP + TOKEN * 100 + STEP) / 0.5 + 10 * STEP / 0.5
    assert asked.worst([one], ["quiet"], due + 0.3) == pytest.approx(0.3)


def test_what_is_in_time_is_not_late_at_all() -> None:
    asked, one = delays(), Running("a", "quiet", num_output_tokens=50)
    asked.arrived(one, 5.0)
    assert asked.worst([one], ["quiet"], 5.1) == 0.0


def test_only_decodes_of_the_tenants_asked_about_count() -> None:
    asked = delays()
    prompt = Running("a", "quiet", is_prefill_chunk=True)
    other = Running("b", "noisy")
    for each in (prompt, other):
        asked.arrived(each, 0.0)
    assert asked.worst([prompt, other], ["quiet"], 100.0) == 0.0
    looks = [asked.worst([prompt, other], ["quiet", "noisy"], 100.0) for _ in range(EVERY)]
    assert looks[-1] > 90.0


def test_between_two_looks_nobody_is_asked_also_while_all_is_in_time() -> None:
    asked, one = delays(), Running("a", "quiet", num_output_tokens=50)
    asked.arrived(one, 0.0)
    assert asked.worst([one], ["quiet"], 0.1) == 0.0
    between = [asked.worst([one], ["quiet"], 100.0) for _ in range(EVERY - 1)]
    assert set(between) == {0.0}
    assert asked.worst([one], ["quiet"], 100.0) > 90.0


def test_the_latest_of_all_counts_and_is_looked_at_again_after_a_few_steps() -> None:
    asked, early, late = (
        delays(),
        Running("a", "quiet", num_output_tokens=99),
        Running("b", "quiet"),
    )
    for each in (early, late):
        asked.arrived(each, 0.0)
    first = asked.worst([early, late], ["quiet"], 50.0)
    assert first == pytest.approx(50.0 - (2 * STEP + TOKEN * 100) / 0.5)
    looks = [asked.worst([early], ["quiet"], 51.0) for _ in range(EVERY)]
    assert looks[-1] == pytest.approx(first + 1.0 - 99 * STEP / 0.5)


def test_new_shares_are_reckoned_with_at_once() -> None:
    asked, one = delays(0.5), Running("a", "quiet")
    asked.arrived(one, 0.0)
    before = asked.worst([one], ["quiet"], 10.0)
    asked.reset(lambda _: 0.1)
    looks = [asked.worst([one], ["quiet"], 10.0) for _ in range(EVERY)]
    assert looks[-1] == pytest.approx(before - (2 * STEP + TOKEN * 100) * (10 - 2))
