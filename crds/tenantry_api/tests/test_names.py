"""Names made out of other names."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry_api import names

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LONG = "platform-shared-inference-production-eu-central-1-business-unit-alpha"
TENANTS = (
    "tenant-a",
    "TENANT-A",
    "tenant a",
    "Team_A/Search",
    "team-a-search",
    "Größe-Daten",
    "0123",
    "顧客",
    "---",
    f"{LONG}-one",
    f"{LONG}-two",
)


def test_tenants_of_every_kind_get_slugs_of_their_own() -> None:
    assert len({names.tenant_slug(name) for name in TENANTS}) == len(TENANTS)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=128))
def test_a_slug_is_a_label_and_a_dns_label_whatever_the_tenant(name: str) -> None:
    slug = names.tenant_slug(name)
    assert LABEL.fullmatch(slug)
    assert len(slug) <= 33


@settings(deadline=None)
@given(st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), st.text(max_size=128))
def test_the_name_of_a_dedicated_deployment_is_a_service_name(policy: str, tenant: str) -> None:
    name = names.dedicated_name(policy, tenant)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert name.endswith(names.tenant_slug(tenant))


def test_a_short_policy_keeps_its_name_in_front() -> None:
    assert names.dedicated_name("chat", "gold").startswith("chat-gold-")


def test_long_policies_with_the_same_beginning_do_not_clash() -> None:
    one, other = (names.dedicated_name("c" * 62 + end, "gold") for end in "ab")
    assert one != other
