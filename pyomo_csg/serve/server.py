"""Run the application by uvicorn, in one or several worker processes."""

from __future__ import annotations

from typing import Any

from pyomo_csg.errors import DataError
from pyomo_csg.serve.settings import ServeSettings

_NEEDED = "FastAPI and uvicorn are needed: pip install 'pyomo-csg[serve]'"
_GRACE_SECONDS = 30  # for requests to end when the server stops


def run_server(settings: ServeSettings) -> None:
    """Serve until the process is told to stop."""
    settings.check()
    try:
        import uvicorn

        from pyomo_csg.serve.application import create_app
    except ImportError:
        raise DataError("Cannot serve the policy", [_NEEDED]) from None
    create_app(settings)  # raises every problem here, not in a worker that starts again
    settings.to_environment()
    uvicorn.run(
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


def worker_app() -> Any:
    """Return the application of a worker process, by the settings in the environment."""
    from pyomo_csg.serve.application import create_app

    return create_app(ServeSettings.from_environment())
