"""Settings from the environment."""

import pytest

from tenantry_operator.settings import Settings, SettingsError, load


def test_nothing_set_gives_the_defaults_and_the_host_as_identity() -> None:
    assert load({}, lambda: "host-1") == Settings(identity="host-1")


def test_every_variable_has_its_effect() -> None:
    environ = {
        "TENANTRY_ENGINE_IMAGE": "engine:2",
        "TENANTRY_NAMESPACE": "here",
        "TENANTRY_POD_NAME": "pod-1",
        "TENANTRY_PORT": "9000",
        "TENANTRY_WORKERS": "2",
        "TENANTRY_SCRAPE_SECONDS": "2.5",
        "TENANTRY_RESYNC_SECONDS": "60",
        "TENANTRY_DRAIN_SECONDS": "0",
        "TENANTRY_LOG_LEVEL": "debug",
    }
    assert load(environ) == Settings(
        engine_image="engine:2",
        namespace="here",
        identity="pod-1",
        port=9000,
        workers=2,
        scrape_seconds=2.5,
        resync_seconds=60.0,
        drain_seconds=0,
        log_level="DEBUG",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TENANTRY_PORT", "http"),
        ("TENANTRY_PORT", "0"),
        ("TENANTRY_SCRAPE_SECONDS", "nan"),
        ("TENANTRY_DRAIN_SECONDS", "-1"),
        ("TENANTRY_WORKERS", "1000"),
        ("TENANTRY_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_is_named_with_the_way_out(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is '{value}'.*give"):
        load({name: value})
