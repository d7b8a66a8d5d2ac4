"""VLLM_SCHEDULER_TENANT_SHARE, as people type it."""

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry_core.tenants import OTHER, Tenants, parse_shares


@pytest.mark.parametrize(
    ("text", "weights", "rest"),
    [
        pytest.param("gold=3,free=1", {"gold": "3", "free": "1"}, "1", id="two"),
        pytest.param("gold=0.6,free=0.4", {"gold": "0.6", "free": "0.4"}, "1", id="fractions"),
        pytest.param(" gold = 3 , free= 1 ", {"gold": "3", "free": "1"}, "1", id="spaces"),
        pytest.param("gold=3,*=2", {"gold": "3"}, "2", id="rest"),
        pytest.param("*=2", {}, "2", id="rest alone"),
        pytest.param("default=5,gold=1", {"default": "5", "gold": "1"}, "1", id="default listed"),
        pytest.param("gold=1e2", {"gold": "100"}, "1", id="exponent"),
        pytest.param("gold=.5", {"gold": "0.5"}, "1", id="no leading digit"),
    ],
)
def test_a_share_text_gives_every_tenant_its_weight(
    text: str, weights: dict[str, str], rest: str
) -> None:
    shares = parse_shares(text)
    assert shares.tenants.weights == {name: Decimal(weight) for name, weight in weights.items()}
    assert shares.tenants.rest == Decimal(rest)
    assert shares.notices == ()


def test_a_tenant_that_is_not_named_has_the_weight_of_the_rest() -> None:
    tenants = parse_shares("gold=3,*=0.5").tenants
    assert tenants.weight_of("gold") == 3
    assert tenants.weight_of("silver") == Decimal("0.5")
    assert parse_shares("gold=3").tenants.weight_of("default") == 1


def test_a_bare_number_is_the_weight_of_default_and_says_that_it_has_no_effect() -> None:
    shares = parse_shares(" 0.6 ")
    assert shares.tenants.weights == {"default": Decimal("0.6")}
    assert len(shares.notices) == 1
    assert "no effect" in shares.notices[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", ["no share is given"], id="empty text"),
        pytest.param("   ", ["no share is given"], id="blank text"),
        pytest.param("gold=3,,free=1", ["an item is empty"], id="empty item"),
        pytest.param("gold=3,", ["an item is empty"], id="comma at the end"),
        pytest.param("=3", ["'=3'", "no tenant name"], id="no name"),
        pytest.param(" =3,free=1", ["'=3'", "no tenant name"], id="blank name"),
        pytest.param("gold=,free=1", ["'gold='", "no weight"], id="no weight"),
        pytest.param("gold,free=1", ["'gold'", "no weight"], id="no equals sign"),
        pytest.param("gold", ["'gold'", "nor NAME=WEIGHT"], id="a lone name"),
        pytest.param("gold=0", ["'gold=0'", "above 0"], id="zero"),
        pytest.param("gold=0.0,free=1", ["'gold=0.0'", "above 0"], id="zero point zero"),
        pytest.param("gold=-1", ["'gold=-1'", "above 0"], id="negative"),
        pytest.param("gold=nan", ["'gold=nan'", "finite decimal"], id="nan"),
        pytest.param("gold=inf", ["'gold=inf'", "finite decimal"], id="inf"),
        pytest.param("gold=-Infinity", ["'gold=-Infinity'", "finite decimal"], id="-infinity"),
        pytest.param("gold=1e9999", ["'gold=1e9999'", "finite decimal"], id="overflow"),
        pytest.param("gold=1e400", ["'gold=1e400'", "1e-9 to 1e+9"], id="more than a float"),
        pytest.param("gold=1e-400", ["'gold=1e-400'", "1e-9 to 1e+9"], id="less than a float"),
        pytest.param("1e10", ["'1e10'", "1e-9 to 1e+9"], id="a bare weight that is too large"),
        pytest.param("other=3", ["'other=3'", "metric label"], id="the label of the rest"),
        pytest.param("*", ["'*'", "nor NAME=WEIGHT"], id="a lone rest"),
        pytest.param("gold=three", ["'gold=three'", "finite decimal"], id="a word"),
        pytest.param("gold=1_000", ["'gold=1_000'", "finite decimal"], id="underscore"),
        pytest.param("gold=60%", ["'gold=60%'", "finite decimal"], id="percent"),
        pytest.param("gold=3;free=1", ["'gold=3;free=1'", "finite decimal"], id="semicolon"),
        pytest.param("gold=3,gold=1", ["'gold=1'", "twice"], id="twice"),
        pytest.param("*=3,*=1", ["'*=1'", "twice"], id="rest twice"),
        pytest.param("0", ["'0'", "above 0"], id="bare zero"),
        pytest.param("-0.5", ["'-0.5'", "above 0"], id="bare negative"),
        pytest.param("0.6,0.4", ["'0.6'", "write NAME=0.6"], id="bare numbers"),
        pytest.param("a=b=2", ["'a=b=2'", "finite decimal"], id="two equals signs"),
        pytest.param("go\x07ld=1", ["printable"], id="control character"),
        pytest.param("g" * 129 + "=1", ["128"], id="long name"),
    ],
)
def test_a_bad_share_text_is_refused_with_one_sentence_that_names_the_item(
    text: str, words: list[str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as refusal:
        parse_shares(text)
    message = str(refusal.value)
    assert "\n" not in message
    for word in words:
        assert word in message


NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20).filter(
    lambda name: name != OTHER
)


@settings(deadline=None)
@given(
    st.dictionaries(
        NAMES,
        st.decimals(min_value="0.001", max_value=10**9, places=3),
        max_size=8,
    ),
    st.decimals(min_value="0.001", max_value=10**9, places=3),
)
def test_what_is_printed_reads_back_as_the_same_tenants(
    weights: dict[str, Decimal], rest: Decimal
) -> None:
    tenants = Tenants(weights, rest)
    assert parse_shares(str(tenants)).tenants == tenants
