"""What kopf watches, and how: every event about a policy or one of its children names a policy.

Handlers decide nothing and keep nothing; they put the policy's key into the queue. They are plain
event handlers, so kopf writes nothing to the objects: no finalizer, no annotation. They are
coroutines, because kopf runs other functions in threads and the queue is not made for those.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import kopf

from tenantry_api import names
from tenantry_operator.cluster import CHILDREN, POD
from tenantry_operator.workqueue import Key

Add = Callable[[Key], None]

# Seconds. The first goes into a query as it is, and the API server takes whole numbers only.
SERVER_TIMEOUT = 240
CLIENT_TIMEOUT = 300.0
CONNECT_TIMEOUT = 10.0


def registry(add: Add) -> kopf.OperatorRegistry:
    """The handlers; `add` asks for a reconcile."""
    found = kopf.OperatorRegistry()
    kopf.on.login(registry=found)(_login)
    kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=found)(_policy_handler(add))
    for kind in (*CHILDREN, POD):
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=found)(_child_handler(add))
    return found


def settings() -> kopf.OperatorSettings:
    """kopf's settings: no peers, no scan of other kinds, no events of its own, watches that end.

    A watch without time-outs can fall silent for ever when a connection dies half-open.
    """
    found = kopf.OperatorSettings()
    found.peering.standalone = True
    found.scanning.disabled = True  # needs no right to list CRDs and namespaces
    found.posting.enabled = False
    found.watching.server_timeout = SERVER_TIMEOUT
    found.watching.client_timeout = CLIENT_TIMEOUT
    found.watching.connect_timeout = CONNECT_TIMEOUT
    found.networking.request_timeout = CLIENT_TIMEOUT
    found.networking.connect_timeout = CONNECT_TIMEOUT
    found.persistence.finalizer = f"{names.GROUP}/operator"
    found.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    found.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=names.GROUP)
    for kind in (*CHILDREN, POD):
        group, _, version = kind.api_version.rpartition("/")
        found.watching.label_selectors[group, version, kind.plural] = names.LABEL_POLICY
    return found


def _login(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )


def _policy_handler(add: Add) -> Callable[..., Coroutine[Any, Any, None]]:
    async def policy_event(namespace: str, name: str, **_: Any) -> None:
        add(Key(namespace, name))

    return policy_event


def _child_handler(add: Add) -> Callable[..., Coroutine[Any, Any, None]]:
    async def child_event(namespace: str, labels: Mapping[str, str], **_: Any) -> None:
        policy = labels.get(names.LABEL_POLICY)
        if policy:
            add(Key(namespace, policy))

    return child_event


def quiet() -> None:
    """Let kopf speak of trouble only: each event that is handled would be a line."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
