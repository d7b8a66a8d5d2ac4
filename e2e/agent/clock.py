"""The two formats of a time in Kubernetes objects."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This second, as `metav1.Time` is written."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """This microsecond, as `metav1.MicroTime` is written."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
