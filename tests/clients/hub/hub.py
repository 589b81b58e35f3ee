"""A hub on this host: the part of Hugging Face's HTTP interface that `sluice pull` speaks, with the faults that real ones have."""

import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that go away are meant to."""


class Hub:
    """Serves `files`, {name: bytes}, as ORG/NAME. The attributes below make it misbehave."""

    def __init__(self, files, name="tales/teller"):
        self.files, self.name, self.commit = dict(files), name, COMMIT
        self.large = 1024  # files from this size on are LFS objects, and elsewhere
        self.token = ""  # which it wants
        self.ranges = True  # whether it knows them
        self.busy = 0  # so many answers are 429
        self.cut_after = 0  # bytes after which each answer with a file ends, so often:
        self.cuts = 0
        self.bytes_a_second = 0
        self.listed = {}  # {name: what its entry of the list has instead}
        self.requests = []  # (path, range, authorization)
        self.sent = 0  # bytes of files
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self)

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def file_requests(self):
        return [path for path, *_ in self.requests if "/api/" not in path]

    def answer(self, request):
        path = urllib.parse.unquote(request.path)
        authorization = request.headers.get("Authorization")
        self.requests.append((path, request.headers.get("Range"), authorization))
        if self.busy > 0:
            self.busy -= 1
            return self.refuse(request, 429, {"Retry-After": "1"})
        if path.startswith("/cdn/"):  # signed addresses in the real one, which want no token
            return self.send_file(request, path.split("/")[-1])
        if self.token and authorization != "Bearer " + self.token:
            return self.refuse(request, 401, {"X-Error-Message": "Access to this model is restricted."})
        if re.match(rf"/api/models/{self.name}/revision/(main|v2)\?blobs=true$", path):
            return self.send(request, 200, json.dumps(self.listing()).encode())
        resolved = re.match(rf"/{self.name}/resolve/{self.commit}/([^/]+)$", path)
        if not resolved or resolved[1] not in self.files:
            return self.refuse(request, 404, {})
        if len(self.files[resolved[1]]) >= self.large:  # another name of this host, so another host
            return self.refuse(request, 302, {"Location": f"http://localhost:{self.port}/cdn/{resolved[1]}"})
        return self.send_file(request, resolved[1])

    def listing(self):
        siblings = []
        for name, data in self.files.items():
            entry = {"rfilename": name, "size": len(data), "blobId": git_id(data)}
            if len(data) >= self.large:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append({**entry, **self.listed.get(name, {})})
        return {"id": self.name, "sha": self.commit, "siblings": siblings}

    def refuse(self, request, status, headers):
        self.send(request, status, b"{}", headers)

    def send(self, request, status, body, headers=None):
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def send_file(self, request, name):
        data, status, headers = self.files[name], 200, {}
        wanted = re.match(r"bytes=(\d+)-(\d+)$", request.headers.get("Range") or "")
        if wanted and self.ranges:
            first, last = int(wanted[1]), int(wanted[2])
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data, status = data[first:last + 1], 206
        request.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        if self.cuts > 0 and len(data) > self.cut_after:
            self.cuts -= 1
            request.wfile.write(data[:self.cut_after])
            self.sent += self.cut_after
            request.close_connection = True
            request.connection.close()
            return
        self.pour(request, data)

    def pour(self, request, data):
        step = self.bytes_a_second // 20 or len(data)
        for first in range(0, len(data), step or 1):
            try:
                request.wfile.write(data[first:first + step])
            except OSError:  # the client has gone
                request.close_connection = True
                return
            self.sent += len(data[first:first + step])
            if self.bytes_a_second:
                time.sleep(0.05)
