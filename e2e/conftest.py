"""Fixtures of the tests that need a cluster: one for the session, a namespace for each test."""

import itertools
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest

from e2e import paths, release
from e2e.cluster import processes
from e2e.cluster.handle import Cluster
from e2e.cluster.layout import LOGS, Layout
from e2e.cluster.nodes import NodeSpec, gpu_nodes

NewCluster = Callable[[Sequence[NodeSpec]], Cluster]

PREFIX = "tests-"
SHOWN_LINES = 12
NUMBERS = itertools.count()
LAST = "test_audit"
FAILED: pytest.StashKey[bool] = pytest.StashKey()
STARTED: pytest.StashKey[list[Layout]] = pytest.StashKey()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look back on the session when it is over."""
    items.sort(key=lambda item: item.path.stem == LAST)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The session's cluster, two nodes of four GPUs; or the one that KUBECONFIG names."""
    named = os.environ.get("KUBECONFIG")
    if named:
        yield Cluster.borrowed(Path(named))
        return
    _remove_leftovers()
    with _start(request.session, gpu_nodes(2, 4)) as local:
        yield local


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster with the chart in it; what this installs elsewhere, it removes."""
    ours = not release.is_installed(cluster)
    if ours:
        release.install(cluster)
    yield cluster
    if ours and os.environ.get("KUBECONFIG"):
        cluster.helm("uninstall", release.RELEASE, f"--namespace={release.NAMESPACE}", "--wait")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace for one test; afterwards its policies and pods are gone, and it is going."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    # The namespace controller waits five seconds before it begins; the next test need not.
    for kinds in ("tenantry", "all"):
        cluster.kubectl(
            "delete", kinds, "--all", f"--namespace={name}", "--timeout=120s", check=kinds == "all"
        )
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def new_cluster(request: pytest.FixtureRequest) -> Iterator[NewCluster]:
    """Makes clusters for one test alone; all of them are stopped after it."""
    made: list[Cluster] = []

    def make(nodes: Sequence[NodeSpec] = ()) -> Cluster:
        made.append(_start(request.node, nodes))
        return made[-1]

    yield make
    for own in made:
        own.stop()
    if not request.node.stash.get(FAILED, False):
        for files in request.node.stash.get(STARTED, []):
            shutil.rmtree(files.run_dir, ignore_errors=True)


def _start(node: pytest.Item | pytest.Session, nodes: Sequence[NodeSpec]) -> Cluster:
    """A cluster for the length of a test or of the session, known to the reports below."""
    name = f"{PREFIX}{os.getpid()}-{next(NUMBERS)}"
    owner = node.config if isinstance(node, pytest.Session) else node
    owner.stash.setdefault(STARTED, []).append(Layout(paths.clusters() / name))
    return Cluster.start(name, nodes)


def _remove_leftovers() -> None:
    """Remove the logs that earlier sessions kept for whoever looks after a failure."""
    for folder in paths.clusters().glob(f"{PREFIX}*"):
        session = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not (session.isdecimal() and processes.find(int(session))):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the end of every component's log to the report of a test that fails: of the clusters
    that it started, and of the session's.
    """
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        for files in (*item.stash.get(STARTED, []), *item.config.stash.get(STARTED, [])):
            for component in LOGS:
                lines = files.last_lines(component, SHOWN_LINES)
                report.sections.append((str(files.log(component)), "\n".join(lines)))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the logs of the session's cluster for whoever looks after a failure."""
    if not session.testsfailed:
        for files in session.config.stash.get(STARTED, []):
            shutil.rmtree(files.run_dir, ignore_errors=True)
