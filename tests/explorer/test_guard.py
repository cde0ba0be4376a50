"""Only the person who started the explorer is answered, and nothing makes it fall over."""

from __future__ import annotations

import json
import socket

import pytest

from nora.explorer.requests import MOST_BYTES

EFFECT = {"edits": [{"kind": "remove", "node": 0}]}


def with_headers(client, **changed: str | None) -> dict[str, str]:
    headers: dict[str, str | None] = {
        "Cookie": client.cookie,
        "Origin": client.own,
        "Content-Type": "application/json",
    }
    headers.update({key.replace("_", "-"): value for key, value in changed.items()})
    return {key: value for key, value in headers.items() if value is not None}


def test_it_listens_on_this_machine_only(explorer):
    assert explorer._socket.getsockname()[0] == "127.0.0.1"


def test_the_token_works_once_and_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    explorer, client
):
    path = explorer.url.removeprefix(client.own)
    status, headers, _ = client.send("GET", path, headers={})
    assert status == 200
    cookie = headers["set-cookie"].lower()
    assert cookie.startswith(f"nora-{explorer.port}=")
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert client.send("GET", path, headers={})[0] == 403
    # The same browser again: it has the cookie.
    assert client.send("GET", path, headers={"Cookie": client.cookie})[0] == 200


@pytest.mark.parametrize("token", ["", "wrong", "é" * 30, "x" * 5000])
def test_a_wrong_token_is_refused(client, token):
    from urllib.parse import quote

    status, headers, _ = client.send("GET", f"/enter?token={quote(token)}", headers={})
    assert status in (403, 429)
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path", ["/", "/explorer.js", "/api/network", "/api/search?text=a", "/api/ranking", "/nothing"]
)
@pytest.mark.parametrize("cookie", [None, "nora-1=abc", "own", "broken"])
def test_without_the_cookie_nothing_is_answered(client, explorer, path, cookie):
    sent = {
        "own": f"nora-{explorer.port}=guess",
        "broken": f"nora-{explorer.port}=\x7f;;=;{'x' * 100}",
    }.get(cookie or "", cookie)
    status, _, text = client.send("GET", path, headers={} if sent is None else {"Cookie": sent})
    assert status == 403
    assert b"member" not in text and b"Traceback" not in text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
    ],
)
def test_a_foreign_host_is_refused_though_the_cookie_is_right(client, host):
    headers = with_headers(client, Host=host)
    assert client.send("GET", "/api/network", headers=headers)[0] in (400, 421)
    assert client.send("POST", "/api/effect", EFFECT, headers)[0] in (400, 421)


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1", "file://"]
)
def test_a_post_from_a_foreign_page_is_refused(client, origin):
    assert client.send("POST", "/api/effect", EFFECT, with_headers(client, Origin=origin))[0] == 403


def test_a_page_of_another_port_of_this_machine_is_refused(client):
    other = with_headers(client, Origin="http://127.0.0.1:1")
    assert client.send("POST", "/api/effect", EFFECT, other)[0] == 403
    fetched = {"Cookie": client.cookie, "Sec-Fetch-Site": "same-site"}
    assert client.send("GET", "/api/network", headers=fetched)[0] == 403


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "x" * 900]
)
def test_what_is_no_json_is_refused_by_its_type(client, kind):
    headers = with_headers(client, Content_Type=kind)
    assert client.send("POST", "/api/effect", EFFECT, headers)[0] == 415


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(client, method):
    status, headers, _ = client.send(method, "/api/effect", EFFECT, with_headers(client))
    assert status == 405
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/explorer.js/../../app.py",
        "/assets/index.html",
        "//etc/passwd",
        "/explorer.js%00.html",
        "/..%5c..%5capp.py",
    ],
)
def test_paths_lead_nowhere_but_to_the_page(client, path):
    status, _, text = client.send("GET", path)
    assert status in (400, 404)
    assert b"root:" not in text and b"import" not in text


@pytest.mark.parametrize("path", ["/", "/api/network", "/nothing", "/enter"])
def test_every_answer_forbids_frames_and_foreign_content(client, path):
    _, headers, _ = client.send("GET", path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_a_body_that_is_too_large_is_refused(client):
    large = {"edits": [], "page": "x" * MOST_BYTES}
    assert client.refused("/api/effect", large)[0] == 413


def test_a_body_that_says_it_is_small_but_goes_on_is_refused(client):
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw:
        head = (
            f"POST /api/effect HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nOrigin: {client.own}\r\n"
            f"Cookie: {client.cookie}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        raw.sendall(head.encode())
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(8):
                raw.sendall(piece)
        except OSError:
            pass
        assert b" 413 " in raw.recv(200)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"edits": NaN}',
        b"[" * 90_000,
        b'"text"',
        b"[]",
        b"null",
        b'{"edits": [], "more": 1}',
        b'{"edits": {"kind": "remove"}}',
        b'{"edits": [[]]}',
        b'{"edits": [{"kind": "burn", "node": 1}]}',
        b'{"edits": [{"kind": ["remove"], "node": 1}]}',
        b'{"edits": [{"kind": "remove"}]}',
        b'{"edits": [{"kind": "remove", "node": -1}]}',
        b'{"edits": [{"kind": "remove", "node": 34}]}',
        b'{"edits": [{"kind": "remove", "node": true}]}',
        b'{"edits": [{"kind": "remove", "node": 1.5}]}',
        b'{"edits": [{"kind": "remove", "node": "0"}]}',
        b'{"edits": [{"kind": "remove", "node": 1, "x": 1}]}',
        b'{"edits": [{"kind": "remove_edge", "edge": [0]}]}',
        b'{"edits": [{"kind": "remove_edge", "edge": "01"}]}',
        b'{"edits": [{"kind": "remove_edge", "edge": [0, 9]}]}',
        b'{"edits": [{"kind": "add_edge", "edge": [0, 1]}]}',
        b'{"edits": [{"kind": "add_edge", "edge": [0, 9], "values": {"w": 1}}]}',
        b'{"edits": [{"kind": "set", "node": 0, "feature": 99, "value": 1}]}',
        b'{"edits": [{"kind": "set", "node": 0, "feature": 0, "value": "1"}]}',
        b'{"edits": [{"kind": "set", "node": 0, "feature": 0, "value": 1e999}]}',
        b'{"edits": [{"kind": "remove", "node": 0}, {"kind": "add_edge", "edge": [0, 9]}]}',
        b'{"edits": [], "number": 1e400}',
        b'{"edits": [], "page": 7}',
    ],
)
def test_a_malformed_request_gets_one_line_and_no_traceback(client, body):
    status, _, text = client.send("POST", "/api/effect", body)
    assert 400 <= status < 500
    reply = json.loads(text)["error"]
    assert reply and "\n" not in reply and "Traceback" not in reply


def test_too_many_edits_are_refused(client):
    many = [{"kind": "set", "node": 0, "feature": 0, "value": k} for k in range(501)]
    assert client.refused("/api/effect", {"edits": many})[0] == 422


@pytest.mark.parametrize(
    "path",
    [
        "/api/search?text=" + "x" * 201,
        "/api/search?text=a&most=9999999",
        "/api/why?node=99",
        "/api/why",
        "/api/why?node=²",
        "/api/features?node=-1",
        "/api/features?node=" + "9" * 400,
    ],
)
def test_a_malformed_address_gets_one_line(client, path):
    from urllib.parse import quote

    status, _, text = client.send("GET", quote(path, safe="/?=&"))
    assert status == 422
    assert "error" in json.loads(text)


def test_a_flood_is_slowed_down(explorer, client):
    allowance = explorer._server.config.app.allowance
    before = allowance.left, allowance.rate
    try:
        allowance.left, allowance.rate = 2, 0.0
        found = [client.send("GET", "/api/search?text=a")[0] for _ in range(4)]
        assert found == [200, 200, 429, 429]
    finally:
        allowance.left, allowance.rate = before


def test_garbage_on_the_wire_does_not_stop_it(client):
    for garbage in (b"\x00\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"A" * 100_000 + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw:
            try:
                raw.sendall(garbage)
                raw.recv(100)
            except OSError:
                pass
    assert client.ask("/api/effect", EFFECT)["total"] > 0


def raw_answer(client, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw:
        try:
            raw.sendall(text)
            return raw.recv(400)
        except OSError:
            return b""


def test_a_second_request_cannot_be_smuggled_behind_the_first(client):
    body = b'{"edits": []}'
    text = (
        f"POST /api/effect HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nOrigin: {client.own}\r\n"
        f"Cookie: {client.cookie}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()
    hidden = b"0\r\n\r\nGET /api/network HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    answer = raw_answer(client, text + hidden)
    assert b"member" not in answer and b" 200 " not in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    "line",
    [
        "GET http://evil.example/api/network HTTP/1.1\r\nHost: evil.example",
        "GET /api/network HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example",
        "GET /api/network HTTP/1.0",
        "GET /api/network HTTP/1.1\r\nHost: 127.0.0.1:{port}@evil.example",
        "GET /api/network HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Forwarded-Host: 127.0.0.1\r\nOrigin: null",
    ],
)
def test_names_that_only_look_like_this_machine_are_refused(client, line):
    text = line.format(port=client.port) + f"\r\nCookie: {client.cookie}\r\n\r\n"
    status = raw_answer(client, text.encode()).split(b"\r\n")[0]
    assert b" 4" in status and b" 200 " not in status


def test_a_cookie_of_the_same_name_from_another_server_neither_opens_nor_locks_the_door(client):
    name = client.cookie.split("=")[0]
    for line in (f"{name}=evil; {client.cookie}", f"{client.cookie}; {name}=evil"):
        assert client.send("GET", "/api/network", headers={"Cookie": line})[0] == 200
    for line in (f"{name}=", f"{name}", f'{name}="{client.cookie}"', f"x{client.cookie}"):
        assert client.send("GET", "/api/network", headers={"Cookie": line})[0] == 403


def test_numbers_of_a_hundred_thousand_digits_and_keys_said_twice_do_no_harm(client):
    digits = b'{"edits": [{"kind": "remove", "node": ' + b"9" * 100_000 + b"}]}"
    assert client.send("POST", "/api/effect", digits)[0] in (400, 422)
    twice = b'{"edits": [], "edits": [{"kind": "remove", "node": 99}]}'
    assert client.send("POST", "/api/effect", twice)[0] == 422


def test_idle_connections_of_others_do_not_keep_the_person_out_for_good(client):
    held = []
    try:
        for _ in range(150):
            held.append(socket.create_connection(("127.0.0.1", client.port), timeout=5))
        for one in held[:75]:
            one.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        assert client.send("GET", "/api/search?text=a")[0] == 200
    finally:
        for one in held:
            one.close()
    for _ in range(100):
        if client.send("GET", "/api/search?text=a")[0] == 200:
            return
    raise AssertionError("the server does not come back")


def test_streams_are_bounded_and_given_back(explorer, client):
    import http.client
    import time

    from nora.explorer.app import STREAMS

    held = []
    for _ in range(STREAMS + 1):
        one = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        one.request("GET", "/api/ranking", headers={"Cookie": client.cookie})
        held.append((one, one.getresponse().status))
    assert [status for _, status in held].count(429) >= 1
    for one, _ in held:
        one.close()
    deadline = time.monotonic() + 20
    explorer._explorations.ranking._notify()
    while explorer._explorations._streams and time.monotonic() < deadline:
        time.sleep(0.1)
        explorer._explorations.ranking._notify()
    assert client.send("GET", "/api/ranking?of=burn")[0] == 422


def test_a_request_that_does_not_end_is_not_waited_for(explorer, client, monkeypatch):
    monkeypatch.setattr("nora.explorer.serving.REQUEST_SECONDS", 0.2)
    slow = (
        b"",
        b"GET / HTTP/1.1\r\nHost: 127",
        b"POST /api/effect HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
    )
    for begun in slow:
        with socket.create_connection(("127.0.0.1", client.port), timeout=5) as held:
            held.sendall(begun)
            while held.recv(1000):  # whatever it answers, it hangs up
                pass


@pytest.mark.parametrize("value", [1e308, 1e39, -1e308, 3e38])
def test_a_feature_beyond_what_the_model_can_hold_is_refused_or_answered(client, value):
    edits = [{"kind": "set", "node": 0, "feature": 0, "value": value}]
    status, _, text = client.send("POST", "/api/effect", {"edits": edits})
    assert status in ((200, 422) if abs(value) < 1e39 else (422,)), text
