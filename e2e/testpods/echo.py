"""An HTTP server that says who it is.

`echo.py [PORT [CERTIFICATE]]`, default 8080; with a PEM file of key and certificate it speaks TLS.
GET / answers hostname, environment and identity as JSON, GET /file?PATH a file's text,
GET /status/N the status N; POST /exit/N ends the process with status N.
"""

import json
import os
import signal
import socket
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Answers as the module says."""

    def do_GET(self) -> None:
        """Who, which file, which status."""
        path, _, query = self.path.partition("?")
        if path.startswith("/status/"):
            self._answer(int(path.rsplit("/", 1)[1]), path)
        elif path == "/file":
            self._file(query)
        else:
            self._answer(200, json.dumps(_identity()))

    def do_POST(self) -> None:
        """End the process."""
        self._answer(200, "bye")
        os._exit(int(self.path.rsplit("/", 1)[1]))

    def _file(self, path: str) -> None:
        try:
            self._answer(200, Path(path).read_text("utf-8"))
        except OSError as error:
            self._answer(404, str(error))

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:  # noqa: ARG002
        """One line a request, on standard output."""
        sys.stdout.write(f"{self.command} {self.path}\n")
        sys.stdout.flush()


def _identity() -> dict[str, object]:
    return {
        "hostname": socket.gethostname(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "environment": dict(os.environ),
    }


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM; exit status 0."""
    port = int(arguments[0]) if arguments else 8080
    server = ThreadingHTTPServer(("0.0.0.0", port), Handler)  # noqa: S104
    if len(arguments) > 1:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments[1])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    sys.stdout.write(f"listening on {port}\n")
    sys.stdout.flush()
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
