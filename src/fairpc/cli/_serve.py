"""``fairpc serve``: scores of a model over HTTP, on the same machine or behind a proxy.

A request is believed in nothing: how long it is, how long it takes, how deep it is nested, which
columns it names. What cannot be scored is 400 and a sentence; who comes while enough work waits for
the workers gets 503.
"""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import fairpc.cli._options as opt
import fairpc.cli._polars as pl
import fairpc.cli._tables as tables
from fairpc import data, models
from fairpc.cli._screen import Screen, say
from fairpc.core import (
    FairpcError,
    FileFormatError,
    MissingExtraError,
    TableError,
    brief,
    parse_json,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_BYTES: Final = 1 << 20
MAX_ROWS: Final = 1000
"""What a request may hold; a row of a hundred columns has some kilobytes."""
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*\\?(?:"|\Z)', re.DOTALL)  # open text ends with all
_NO_BRACKETS: Final = re.compile(rb"[^][{}]+")
_FLAT: Final = re.compile(rb"\{\}|\[(?:\{\})*\]")
"""The brackets of a request, without its text: those of an object of values, or a list of some."""
EXPECTED: Final = (
    "the body is not what is expected: send, in UTF-8, a JSON object of columns, each once, or a "
    "list of such objects, with text of up to 10,000 characters, numbers (whole ones up to 2^53), "
    "true, false or null in them, and nothing nested"
)
_KINDS: Final = {str: "text", bool: "true or false", int: "numbers", float: "numbers"}
READ_SECONDS: Final = 10.0
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
CONNECTIONS: Final = 1024
QUEUE: Final = 256
"""Work per worker that is taken on: a row is 1, the largest request 64, by time and by memory."""
_CLOSE: Final = {"Connection": "close"}
"""Of what else is sent, nothing is read."""
_LOG: Final = logging.getLogger("fairpc.serve")


def serve(
    model_file: opt.ModelFile,
    screen: Screen,
    host: Annotated[str, opt.option("ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, opt.option("N", "At which port.", min=1, max=65535)] = 8000,
    workers: Annotated[int, opt.option("N", "Rows scored at once.", min=1, max=64)] = 2,
) -> None:
    """Answer with scores over HTTP: POST / with a row as a JSON object, or a list of rows.

    GET /health and /version say that the service lives and which model it has. There is no login
    and no TLS: leave it on this machine, or put a proxy before it that has both.

    Example: fairpc serve loans.fairpc --port 8000
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError(
            "a service is run by uvicorn: pip install 'fairpc[serve]'"
        ) from None
    # A page in a browser of this machine could else ask under a name of its own.
    hosts = ("localhost", "127.0.0.1", "[::1]") if host in LOOPBACK else ("*",)
    app = application(tables.loaded(model_file, then="nothing else"), workers, hosts)
    if screen.prints_text:
        say(f"Scores of {model_file} at http://{host}:{port}/ ; Ctrl-C ends the service")
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=16_384,
    )


def application(
    model: models.FittedModel, workers: int = 2, hosts: Sequence[str] = ("*",)
) -> Starlette:
    """The service of a model, for any ASGI server, under some names of its host."""
    try:
        from anyio import CapacityLimiter, to_thread
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("a service needs starlette: pip install 'fairpc[serve]'") from None
    from fairpc import __version__

    warnings.simplefilter("ignore")  # a thread cannot tell whose request a warning is about
    limiter: list[CapacityLimiter] = []  # made where there is a loop
    taken_on = 0
    version = {"fairpc": __version__, "model": type(model).__name__}
    version["rows"] = model.data_fingerprint_

    async def score(request: Request) -> Response:
        nonlocal taken_on
        if not limiter:
            limiter.append(CapacityLimiter(workers))
        work = 0
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _read(request)
            if body is None:
                said = f"the request has more than {MAX_BYTES:,} bytes: send fewer rows"
                return JSONResponse({"error": said}, 413, headers=_CLOSE)
            if taken_on + (more := _work(body)) > QUEUE * workers:
                busy = {"Retry-After": "1"}
                return JSONResponse({"error": "all workers are busy"}, 503, headers=busy)
            work = more
            taken_on += work
            found = await to_thread.run_sync(answer, model, body, limiter=limiter[0])
            return JSONResponse(found)
        except TimeoutError:
            said = f"the body took over {READ_SECONDS:.0f} seconds"
            return JSONResponse({"error": said}, 408, headers=_CLOSE)
        except FairpcError as error:
            return JSONResponse({"error": brief(str(error))}, 400)
        except Exception as error:  # noqa: BLE001 - what a stranger sends is not a fault of ours
            _LOG.warning("a request could not be scored (%s)", type(error).__name__)
            return JSONResponse({"error": "the rows cannot be scored: check their values"}, 400)
        finally:
            taken_on -= work

    async def status(request: Request) -> Response:
        return JSONResponse({"status": "ok"} if request.url.path == "/health" else version)

    return Starlette(
        routes=[
            Route("/", score, methods=["POST"]),
            Route("/health", status, methods=["GET"]),
            Route("/version", status, methods=["GET"]),
        ],
        middleware=[
            Middleware(_WholeBodies),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
        ],
    )


class _WholeBodies:
    """Refuses bodies in chunks: one in a million of these keeps the parser from all others."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        app = self.app
        if any(name == b"transfer-encoding" for name, _ in scope.get("headers", ())):
            app = JSONResponse({"error": "send the body with its length"}, 411, headers=_CLOSE)
        await app(scope, receive, send)


async def _read(request: Request) -> bytes | None:
    """The body; None where it is too long, of which no more is read."""
    # Who is still sending would not see an answer: of what is not absurd, some is read.
    if int(request.headers.get("content-length", 0)) > MAX_BYTES << 10:
        return None
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            return None
    return bytes(body)


def _work(body: bytes) -> int:
    """What a request may take: measured, a row is 10 ms, 1,000 of them 40, a MiB of text 160."""
    return 1 + len(body) // 32_768 + min(body.count(b"{"), MAX_ROWS) // 32


def answer(model: models.FittedModel, body: bytes) -> dict[str, Any] | list[dict[str, Any]]:
    """What a model says of the rows of a request; a FairpcError says what is wrong with them."""
    given = _parsed(body)
    rows: list[Any] = given if isinstance(given, list) else [given]
    if not 0 < len(rows) <= MAX_ROWS:
        raise TableError(f"the request has {len(rows)} rows: send 1 to {MAX_ROWS:,}")
    coding = model.coding_
    parts = coding.features, coding.groups
    used = {c.name: (c, part.missing_values) for part in parts for c in part.columns}
    columns: dict[str, list[Any]] = {n: [] for n in (*coding.features.names_in, *used)}
    for row in rows:
        if not isinstance(row, dict) or not all(map(_is_value, row.values())):
            raise TableError(EXPECTED)
        if unknown := set(row) - set(columns):
            raise TableError(f"there is no column {min(unknown)!r}: send those of the fit")
        for name, values in columns.items():
            values.append(row.get(name))
    for name, values in columns.items():
        kinds = sorted({_KINDS[type(value)] for value in values if value is not None})
        if len(kinds) > 1:  # as one column, some would be read as what they are not
            raise TableError(f"column {name!r} has {' and '.join(kinds)}: send one kind")
        if kinds == [_KINDS[bool]] and name in used and used[name][0].binned:
            raise TableError(f"column {name!r} has {kinds[0]}: send numbers or dates, as at fit")
    cells = pl.DataFrame([pl.Series(n, values, strict=False) for n, values in columns.items()])
    about = tables.evidence(model, cells)
    coded = {n: c.codes(tables.read_cells(cells[n], m), warn=False) for n, (c, m) in used.items()}
    classes = [str(c) for c in coding.labels.classes]
    found = [
        {
            "p_df": dict(zip(classes, map(float, scores), strict=True)),
            "decision": str(decision),
            "missing": [name for name, codes in coded.items() if codes[k] < 0],
        }
        for k, (scores, decision) in enumerate(
            zip(model.predict_proba(**about), model.predict(**about), strict=True)
        )
    ]
    return found if isinstance(given, list) else found[0]


def _parsed(body: bytes) -> object:
    """The JSON of a request, unless it is nested, or none."""
    with suppress(FileFormatError):
        if _FLAT.fullmatch(_NO_BRACKETS.sub(b"", _TEXT.sub(b"", body))):
            return parse_json(body, "the request", MAX_BYTES)
    raise TableError(EXPECTED)


def _is_value(value: object) -> bool:
    """Whether a cell is short text, a number that floats hold exactly, true, false or null."""
    if isinstance(value, str):
        return len(value) <= 10_000
    if isinstance(value, int):
        return abs(value) <= data.EXACT
    return value is None or isinstance(value, float)
