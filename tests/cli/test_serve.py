"""The scoring service: bounded, never a 500, never a hang, whatever is sent."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from decisions import table
from fairpc import LatNB, load

pytest.importorskip("uvicorn", reason="the service needs fairpc[serve]")
pytest.importorskip("starlette", reason="the service needs fairpc[serve]")

SECONDS = 30.0
MEGABYTES = 64
"""By which the memory of a service may grow, whatever it was sent: caches, not requests."""


@dataclass
class Service:
    process: subprocess.Popen[bytes]
    port: int
    model: Any
    row: dict[str, Any]

    def sends(self, body: bytes, method: str = "POST", path: str = "/") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def sends_raw(self, request: bytes, *, hangs_up: bool) -> int | None:
        """Status of what need not be HTTP; None where the service hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as talk:
            try:
                talk.sendall(request)
                if hangs_up:
                    talk.shutdown(socket.SHUT_WR)
                said = talk.recv(65_536)
            except TimeoutError:
                raise
            except OSError:
                return None
        return int(said.split()[1]) if said.startswith(b"HTTP/") else None

    @property
    def seconds(self) -> float:
        """Time of processors that the service has used."""
        used = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    rows = table(400).drop("weight")
    model = LatNB(sensitive="sex", max_iter=5, min_iter=1, guard=False)
    model.fit(rows.drop("label"), rows["label"])
    path = tmp_path_factory.mktemp("served") / "m.fairpc"
    model.save(path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = f"from fairpc.cli import main; main(['serve', {str(path)!r}, '--port', '{port}'])"
    process = subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.DEVNULL)
    found = Service(process, port, load(path), rows.drop("label").row(0, named=True))
    until = time.monotonic() + 60
    while True:
        try:
            if found.sends(b"", "GET", "/health")[0] == 200:
                break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
    try:
        yield found
    finally:
        process.terminate()
        process.wait(20)


def test_scores_are_those_of_the_model(service: Service) -> None:
    status, said = service.sends(json.dumps(service.row).encode())
    assert status == 200
    found = json.loads(said)["p_df"]
    assert sum(found.values()) == pytest.approx(1)
    status, said = service.sends(json.dumps([service.row, {}]).encode())
    assert json.loads(said)[0]["p_df"] == found
    status, said = service.sends(b"", "GET", "/version")
    assert json.loads(said)["rows"] == service.model.data_fingerprint_


def test_an_answer_says_what_is_missing(service: Service) -> None:
    """Columns that are left out, null, or have a value that was not there at fit."""
    text = next(name for name, value in service.row.items() if isinstance(value, str))
    rows = [service.row, service.row | {text: "yacht"}, service.row | {text: None}, {}]
    status, said = service.sends(json.dumps(rows).encode())
    assert status == 200
    missing = [row["missing"] for row in json.loads(said)]
    assert missing[:3] == [[], [text], [text]]
    assert sorted(missing[3]) == sorted(service.row)


def test_a_row_does_not_depend_on_the_others(service: Service) -> None:
    """Values of two kinds in one column would be cast to one of them."""
    name, number = next((n, v) for n, v in service.row.items() if isinstance(v, float))
    mixed = [service.row | {name: value} for value in (number, 1, None)]
    alone = [json.loads(service.sends(json.dumps(row).encode())[1]) for row in mixed]
    assert json.loads(service.sends(json.dumps(mixed).encode())[1]) == alone
    for other in (True, str(number)):
        status, said = service.sends(json.dumps([*mixed, {name: other}]).encode())
        assert status == 400
        assert f"column {name!r} has numbers and t" in json.loads(said)["error"]
    assert service.sends(json.dumps({name: True}).encode())[0] == 400


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"[" * 100_000, 400, "nested"),
        (b'{"x": {"y": 1}}', 400, "nested"),
        (b'{"nobody": 1}', 400, "no column 'nobody'"),
        (b"not JSON", 400, "a JSON object"),
        (b"null", 400, "a JSON object"),
        (b'{"x": NaN}', 400, "a JSON object"),
        (b'{"x": 1' + b"0" * 400 + b"}", 400, "up to 2^53"),
        (b'{"x": 1' + b"0" * 5000 + b"}", 400, "up to 2^53"),
        ('{"x": 1}'.encode("utf-16"), 400, "in UTF-8"),
        (b"[" + b"{}," * 1000 + b"{}]", 400, "1001 rows"),
        (b" " * 2_000_000, 413, "bytes"),
    ],
)
def test_what_cannot_be_scored_is_said(
    service: Service, body: bytes, status: int, words: str
) -> None:
    found, said = service.sends(body)
    assert found == status
    assert words in json.loads(said)["error"]


def test_a_body_that_says_it_is_too_long_is_not_waited_for(service: Service) -> None:
    request = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n"
    began = time.monotonic()
    assert service.sends_raw(request, hangs_up=False) == 413
    assert time.monotonic() - began < 5


def test_a_page_of_another_name_is_not_answered(service: Service) -> None:
    """A name that was made to mean this machine would let a browser's page read scores."""
    request = b"GET /version HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert service.sends_raw(request, hangs_up=False) == 400


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("asked", ["POST /", "GET /health"])
def test_a_body_in_many_chunks_keeps_nobody_out(service: Service, asked: str) -> None:
    """Chunks of one byte are refused with the connection, and not parsed one by one."""
    head = f"{asked} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert service.sends_raw(head + b"0\r\n\r\n", hangs_up=False) == 411
    used = service.seconds
    for _ in range(3):
        assert service.sends_raw(head + b"1\r\n \r\n" * 300_000, hangs_up=False) in (411, None)
    assert service.sends(b"", "GET", "/health")[0] == 200
    assert service.seconds - used < 5


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_heavy_requests_keep_nobody_waiting(service: Service) -> None:
    """Work beyond what waits already is 503, so a row has its turn, and memory a plateau."""
    text = next(name for name, value in service.row.items() if isinstance(value, str))
    rows = [service.row | {text: "x" * 900 + str(k)} for k in range(1000)]
    heavy, row = json.dumps(rows).encode(), json.dumps(service.row).encode()
    grown = []
    for _ in range(3):
        with ThreadPoolExecutor(60) as pool:
            sent = [pool.submit(service.sends, heavy) for _ in range(60)]
            while not any(each.done() for each in sent):
                time.sleep(0.01)
            used = service.seconds
            assert service.sends(row)[0] == 200
            assert service.seconds - used < 6
            assert {each.result()[0] for each in sent} == {200, 503}
        grown.append(service.megabytes)
    assert max(grown) - grown[0] < MEGABYTES


def hostile(rng: random.Random, row: dict[str, Any]) -> tuple[bytes, bool]:
    """A request that somebody made who wishes the service ill; and whether it ends too early."""
    good = json.dumps(row).encode()
    values: list[Any] = [
        None, True, "", "é" * 5000, "\x00", "1e999", -1e308, 10**400, [], {}, [[1]], "nan", "\u202e"
    ]  # fmt: skip
    kind = rng.randrange(9)
    if kind == 0:
        body = rng.randbytes(rng.randrange(3000))
    elif kind == 1:
        altered = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            altered[rng.randrange(len(good))] = rng.randrange(256)
        body = bytes(altered)
    elif kind == 2:
        body = json.dumps(row | {rng.choice([*row, "x"]): rng.choice(values)}).encode()
    elif kind == 3:
        body = rng.choice([b"[", b'{"a":', b"{", b'"\\']) * rng.randrange(1, 50_000)
    elif kind == 4:
        body = json.dumps([row | {rng.choice([*row]): rng.choice(values)}] * 50).encode()
    elif kind == 5:
        body = b"x" * rng.randrange(900_000, 1_200_000)
    else:
        body = good
    length = len(body) if kind < 7 else rng.choice([-1, 0, 10**12, len(body) + 5])
    ends = f"Connection: close\r\nContent-Length: {length}\r\n\r\n"
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{ends}"
    if kind == 8:
        head = rng.choice(
            [
                "GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                "POST / HTTP/9.9\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                "A" * 40_000,
                "\r\n" * 500,
                f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {'y' * 70_000}\r\n\r\n",
                "DELETE /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            ]
        )
    return head.encode() + body, kind >= 7


def attacked(service: Service, n: int, seed: int) -> None:
    rng, found = random.Random(seed), Counter[int | None]()
    for _ in range(20):  # caches are filled before memory is looked at
        request, early = hostile(rng, service.row)
        service.sends_raw(request, hangs_up=early)
    before = service.megabytes
    for _ in range(n):
        request, early = hostile(rng, service.row)
        found[service.sends_raw(request, hangs_up=early)] += 1
    assert set(found) <= {None, 200, 400, 404, 405, 408, 411, 413, 422, 431}, found
    assert found[400] > n / 4
    assert service.megabytes - before < MEGABYTES
    assert service.sends(b"", "GET", "/health")[0] == 200


def at_once(service: Service, n: int) -> None:
    body = json.dumps(service.row).encode()
    before = service.megabytes
    with ThreadPoolExecutor(n) as pool:
        found = list(pool.map(lambda _: service.sends(body)[0], range(n)))
    assert set(found) <= {200, 503}
    assert found.count(200) > n / 2
    assert service.megabytes - before < MEGABYTES


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_hostile_requests_are_refused(service: Service) -> None:
    attacked(service, 150, 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
def test_many_at_once_are_answered(service: Service) -> None:
    at_once(service, 200)


@pytest.mark.slow
def test_two_thousand_hostile_requests_in_a_minute(service: Service) -> None:
    began = time.monotonic()
    attacked(service, 2000, 2)
    at_once(service, 200)
    assert time.monotonic() - began < 60
