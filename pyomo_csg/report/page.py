"""One page that shows a policy: everything is in it, and it asks no network."""

from __future__ import annotations

import html
import json
import os
from importlib.resources import files
from string import Template
from typing import Any

from pyomo_csg.files import write_result
from pyomo_csg.policy import Policy
from pyomo_csg.report.content import content_of

_SCRIPTS = ("charts.js", "panels.js", "page.js")


def write_page(path: str | os.PathLike[str], policy: Policy, data: Any = None) -> None:
    """Write the page to a file, which appears whole or not at all.

    Parameters
    ----------
    path : str or path
    policy : Policy
    data : (contexts, outcomes) or DataFrame, optional
        As in :meth:`pyomo_csg.Policy.report`.

    Raises
    ------
    DataError
    """
    write_result(path, rendered(policy, data).encode())


def rendered(policy: Policy, data: Any = None) -> str:
    """Return the page's HTML."""
    content = json.dumps(content_of(policy, data), allow_nan=False)
    return Template(_asset("page.html")).substitute(
        name=html.escape(policy.two_stage.model.name),
        words=html.escape(policy.report()),
        stages=html.escape(str(policy.two_stage)),
        style=_asset("page.css"),
        script="\n".join(map(_asset, _SCRIPTS)),
        # In a script element nothing but "<" could end it.
        content=content.replace("<", "\\u003c"),
    )


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
