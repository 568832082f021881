"""Run the application by uvicorn, in one or several worker processes."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.serve.settings import ServeSettings

_NEEDED = "FastAPI and uvicorn are needed: pip install 'pyomo-csg[serve]'"
_GRACE_SECONDS = 30  # for requests to end when the server stops


def run_server(settings: ServeSettings) -> None:
    """Serve until the process ends."""
    settings.check()
    try:
        import uvicorn
        from uvicorn.supervisors import Multiprocess

        from pyomo_csg.serve.application import create_app
    except ImportError:
        raise DataError("Cannot serve the policy", [_NEEDED]) from None
    create_app(settings)  # raises every problem here, not in a worker that starts again
    settings.to_environment()
    config = uvicorn.Config(
        "pyomo_csg.serve.server:worker_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    with suppress(KeyboardInterrupt):
        if settings.workers == 1:
            uvicorn.Server(config).run()
            return
        # The workers share this socket. Without the option, the kernel keeps the body of an
        # answer back until its head is acknowledged, which takes 40 ms.
        shared = config.bind_socket()
        shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Multiprocess(config, sockets=[shared]).run()


def worker_app() -> Any:
    """Return the application of a worker process, by the settings in the environment."""
    from pyomo_csg.serve.application import create_app

    return create_app(ServeSettings.from_environment())
