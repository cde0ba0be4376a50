"""A client that speaks HTTP to an explorer on this machine."""

from __future__ import annotations

import http.client
import json
from typing import Any


class Client:
    """Speaks HTTP to an explorer, with its cookie and as its own page does by default."""

    def __init__(self, explorer: Any, timeout: float = 60) -> None:
        self.timeout, self.port = timeout, explorer.port
        self.own = f"http://127.0.0.1:{self.port}"
        status, headers, _ = self.send("GET", explorer.url.removeprefix(self.own), headers={})
        assert status == 200
        self.cookie = headers["set-cookie"].split(";")[0]

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        if headers is None:
            headers = {"Cookie": self.cookie, "Origin": self.own}
            if body is not None:
                headers["Content-Type"] = "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, path: str, body: Any = None) -> Any:
        status, _, text = self.send("GET" if body is None else "POST", path, body)
        assert status == 200, text
        return json.loads(text)

    def refused(self, path: str, body: Any) -> tuple[int, str]:
        status, _, text = self.send("POST", path, body)
        return status, json.loads(text)["error"]
