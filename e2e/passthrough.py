"""A scheduler extender that lets everything through: the negative control of the fair-share tests.

It answers filter with all nodes, prioritize with no opinion, and binds. Run it as
`python -m e2e.passthrough --port PORT --kubeconfig FILE`.
"""

import argparse
import http.client
import json
import ssl
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.cluster.api import Access


class Handler(BaseHTTPRequestHandler):
    """The three verbs; `access` is where pods are bound."""

    protocol_version = "HTTP/1.1"
    access: Access

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        replies = {"filter": self._filter, "prioritize": lambda _: [], "bind": self._bind}
        reply = json.dumps(replies[self.path.rpartition("/")[2]](body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def _filter(self, args: dict[str, Any]) -> dict[str, Any]:
        return {"NodeNames": args["NodeNames"], "FailedNodes": {}, "Error": ""}

    def _bind(self, args: dict[str, Any]) -> dict[str, Any]:
        namespace, name = args["PodNamespace"], args["PodName"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": args["PodUID"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": args["Node"]},
        }
        url = f"{self.access.server}/api/v1/namespaces/{namespace}/pods/{name}/binding"
        headers = {
            "Authorization": f"Bearer {self.access.token}",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(url, json.dumps(binding).encode(), headers)  # noqa: S310
        trust = ssl.create_default_context(cafile=str(self.access.ca))
        try:
            with urllib.request.urlopen(request, timeout=5, context=trust):  # noqa: S310
                return {"Error": ""}
        except (OSError, http.client.HTTPException) as error:
            return {"Error": str(error)}

    def log_message(self, *_: Any) -> None:
        """Nothing: its clients' tests say what went wrong."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    options = parser.parse_args()
    Handler.access = Access.of(options.kubeconfig, direct=True)
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
