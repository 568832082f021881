"""The web application: decisions, health, report and metrics of one policy."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyomo_csg import __version__
from pyomo_csg.decisions.decision import Decision
from pyomo_csg.errors import ProblemsError, SolveError
from pyomo_csg.report.page import render_page
from pyomo_csg.serve.metrics import Metrics
from pyomo_csg.serve.policy_store import PolicyStore, ServedPolicy
from pyomo_csg.serve.settings import TOKEN, ServeSettings

_OPEN = ("/health",)  # without a token
_JSON = "application/json"
_UNSOLVED = 422  # no decision for this row
_SUBJECT = "Cannot decide"


def create_app(settings: ServeSettings) -> FastAPI:
    """Return the application of a policy; it loads the policy at once."""
    store, metrics = PolicyStore(settings), Metrics()
    # One thread, whose solver stays warm. More workers decide at the same time.
    solver = ThreadPoolExecutor(1, thread_name_prefix="solver")
    token = os.environ.get(TOKEN, "")
    served = store.current
    app = FastAPI(
        title=f"Policy for '{served.policy.two_stage.model.name}'",
        version=__version__,
        description="Decisions by pyomo_csg.",
    )

    @app.post("/decide", openapi_extra=_decide_schema(served))
    async def decide(request: Request) -> Response:
        """Return the decision for one row, or for many."""
        start = time.perf_counter()
        store.refresh()
        try:
            values = await _read_body(request, settings)
            loop = asyncio.get_running_loop()
            found, count = await loop.run_in_executor(
                solver, _decide, store.current, values
            )
        except ProblemsError as error:
            return _problem(422, error.subject, list(error.problems))
        except SolveError as error:
            row = f"row {error.case}: {error.status}"
            detail = f" ({error.detail})" if error.detail else ""
            return _problem(_UNSOLVED, "There is no decision", [f"{row}{detail}"])
        seconds = time.perf_counter() - start
        metrics.record("/decide", 200, seconds, count)
        return Response(json.dumps(found), media_type=_JSON)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Return whether the worker serves, and which policy."""
        store.refresh()
        now = store.current
        lineage = now.policy.lineage
        return {
            "status": "ok" if not store.problem else "old policy",
            "problem": store.problem,
            "model": now.policy.two_stage.model.name,
            "loaded": now.loaded,
            "made": lineage[-1]["when"] if lineage else None,
            "data": lineage[-1]["history"] if lineage else None,
            "worker": os.getpid(),
            "version": __version__,
        }

    pages: dict[int, str] = {}

    @app.get("/report", response_class=HTMLResponse)
    async def report() -> str:
        """Return the report of the policy as a page."""
        store.refresh()
        now = store.current
        if id(now) not in pages:
            loop = asyncio.get_running_loop()
            # In another thread than the solver's, which goes on to decide.
            page = await loop.run_in_executor(None, render_page, now.policy)
            pages.clear()
            pages[id(now)] = page
        return pages[id(now)]

    @app.get("/metrics", response_class=PlainTextResponse)
    async def show_metrics() -> str:
        """Return counts and times in the text format of Prometheus."""
        return metrics.text(store.reloads, store.current.loaded)

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, str(error.detail), [])

    app.add_middleware(_Guard, token=token, metrics=metrics)
    return app


_PATHS = ("/decide", "/health", "/report", "/metrics", "/openapi.json", "/docs")


class _Guard:
    """Asks for the API token, and counts requests by their status."""

    def __init__(self, app: ASGIApp, token: str, metrics: Metrics):
        self._app, self._token, self._metrics = app, token.encode(), metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                if path != "/decide" or status != 200:  # those count their decisions
                    self._metrics.record(path if path in _PATHS else "other", status)
            await send(message)

        if self._token and path not in _OPEN and not self._is_authorized(scope):
            refused = _problem(401, "Not authorized", ["give the API token"])
            refused.headers["WWW-Authenticate"] = "Bearer"
            await refused(scope, receive, count)
        else:
            await self._app(scope, receive, count)

    def _is_authorized(self, scope: Scope) -> bool:
        header = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, given = header.partition(b" ")
        right = hmac.compare_digest(given.strip(), self._token)
        return scheme.lower() == b"bearer" and right


async def _read_body(request: Request, settings: ServeSettings) -> Any:
    """Return the JSON body; too large ones are refused before they are read."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > settings.max_bytes:
        raise _too_large(settings)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > settings.max_bytes:
            raise _too_large(settings)
    try:
        values = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProblemsError(_SUBJECT, [f"the body is not JSON: {error}"]) from None
    if isinstance(values, list) and len(values) > settings.max_rows:
        found = f"there are {len(values):,} rows; send at most {settings.max_rows:,}"
        raise HTTPException(413, found)
    return values


def _too_large(settings: ServeSettings) -> HTTPException:
    return HTTPException(413, f"the body is larger than {settings.max_bytes:,} bytes")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON; send null")


def _decide(served: ServedPolicy, values: Any) -> tuple[dict[str, Any], int]:
    """Return the decision or decisions of a body in JSON types, and how many."""
    policy = served.policy
    contexts = _contexts(values)
    found = policy.decide(contexts, progress=False)
    integer = {policy._names[j] for j in policy._integer}
    if isinstance(found, Decision):
        decision = {name: _cell(found[name], name in integer) for name in found}
        return {
            "decision": decision,
            "value": found.value,
            "status": found.status,
        }, 1
    columns = {
        name: [_cell(x, name in integer) for x in found[name].tolist()]
        for name in found
    }
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    return {"decisions": rows}, len(rows)


def _contexts(values: Any) -> Any:
    """Return what policy.decide takes: a mapping, a table or an array."""
    if isinstance(values, dict):
        return values
    if not isinstance(values, list) or not values:
        found = f"{type(values).__name__} was sent; send an object, or a list of rows"
        raise ProblemsError(_SUBJECT, [found])
    if all(isinstance(row, dict) for row in values):
        import pandas as pd

        return pd.DataFrame(values)
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        found = "the rows are neither all objects nor arrays of numbers of one shape"
        raise ProblemsError(_SUBJECT, [found]) from None


def _cell(value: float, is_integer: bool) -> float | int:
    return int(value) if is_integer else value


def _problem(status: int, error: str, problems: list[str]) -> JSONResponse:
    return JSONResponse({"error": error, "problems": problems}, status)


def _decide_schema(served: ServedPolicy) -> dict[str, Any]:
    """Return the OpenAPI description of a body and its answers, with an example."""
    example = served.example
    names = [v.name for v in served.policy.two_stage.first_stage_variables]
    return {
        "requestBody": {
            "required": True,
            "content": {
                _JSON: {
                    "schema": {"oneOf": [{"type": "object"}, {"type": "array"}]},
                    "examples": {
                        "one row": {"value": example},
                        "many rows": {"value": [example, example]},
                    },
                }
            },
        },
        "responses": {
            "200": {
                "description": "The decision, by the names of the variables",
                "content": {
                    _JSON: {
                        "example": {
                            "decision": dict.fromkeys(names[:3], 0),
                            "value": 0.0,
                            "status": "optimal",
                        }
                    }
                },
            },
            "401": {"description": "The API token is missing or wrong"},
            "413": {"description": "The body is too large"},
            "422": {"description": "A row does not fit, or has no decision, and why"},
        },
    }
