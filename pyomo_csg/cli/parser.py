"""The arguments and help texts of pyomo-csg."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyomo_csg import __version__
from pyomo_csg.validation import DEFAULT_SECONDS, METHODS

PROGRAM = "pyomo-csg"

_EXECUTES = """\
A model is a Python file with a function build() or pyomo_create_model(), or an object
model. It is executed: give only files that you trust."""
_TABLES = "Tables are CSV files, or Parquet files that end in .parquet."
_ALL = f"""\
learn the few scenarios on which to solve a two-stage model, and decide with them

{_EXECUTES}
{_TABLES}

examples:
  pyomo-csg demo
  pyomo-csg check model.py
  pyomo-csg fit model.py history.csv --scenarios 5 --out policy.csg
  pyomo-csg decide policy.csg contexts.csv --out decisions.csv
  pyomo-csg evaluate policy.csg heldout.csv
  pyomo-csg report policy.csg heldout.csv --out report.html
  pyomo-csg update policy.csg new.csv --out policy2.csg
  pyomo-csg monitor policy.csg last_month.csv --fail-on drift
  pyomo-csg serve policy.csg --port 8000

commands:
{{commands}}

'pyomo-csg COMMAND --help' describes a command.
exit codes: 0 success, 1 a problem was found, 2 wrong usage, 3 drift, 130 interrupted
"""
_CHECK = f"""\
show the stages of a model, and every problem with it

{_EXECUTES}
The model is also solved with its own data. If you give a table of pairs, its columns are
checked against the model.

examples:
  pyomo-csg check model.py
  pyomo-csg check model.py history.csv
  pyomo-csg check model.py --first-stage 'order*' --uncertain demand
  pyomo-csg check lands.cor

A problem in SMPS files (.cor, .tim, .sto) is read, not executed.
"""
_SOLVE = """\
solve a problem in SMPS files on all its scenarios, or on a sample of them

Give one of the three files; the other two must be beside it. If the problem has at most
--scenarios scenarios, all are used with their probabilities; otherwise that many are
drawn.

examples:
  pyomo-csg solve lands.cor
  pyomo-csg solve ssn.cor --scenarios 200 --seed 1
"""
_FIT = f"""\
fit a policy to a table of contexts and outcomes

{_EXECUTES}
The table has a column for each uncertain number, by its Pyomo name, such as demand[1].
The other columns, or those that you name with --context, are the context. Columns of text,
dates and missing values become numbers; leave some out with --ignore.
{_TABLES}

examples:
  pyomo-csg fit model.py history.csv --out policy.csg
  pyomo-csg fit model.py history.csv --scenarios auto --method mmd --out policy.csg
  pyomo-csg fit model.py history.csv --context rain --context price --out policy.csg
  pyomo-csg fit model.py history.csv --ignore remark --out policy.csg
  pyomo-csg fit model.py history.csv --set folds=3 --set hidden=32,32 --out policy.csg
  pyomo-csg fit model.py history.csv --set rows=series --out policy.csg
  pyomo-csg fit model.py history.csv --seconds 600 --checkpoint run --out policy.csg

After Ctrl-C or a crash, the same command with the same --checkpoint resumes the fit.
"""
_DECIDE = f"""\
decide for the contexts of a table

{_EXECUTES}
The policy's file holds numbers and text only. Without --model, the model is the file that
your fit read, if it has not changed since; otherwise model.py in the folder of the
policy. The result has the table's columns, and one column for each
first-stage variable.
{_TABLES}

examples:
  pyomo-csg decide policy.csg contexts.csv --out decisions.csv
  pyomo-csg decide policy.csg contexts.csv --model newsvendor.py > decisions.csv

A context without a decision has empty cells, and the exit code is then 1.
"""
_EVALUATE = f"""\
compare the costs of policies' decisions on pairs that they were not fitted to

{_EXECUTES}
Two simple alternatives are added: deciding on a random forest's forecast of the mean
outcome, and one decision for all contexts, on past outcomes. They learn from the history
that the first policy keeps, or from --history; without either by five-fold
cross-validation on the table. Differences are paired and have standard errors. Profits of
a maximized model are shown as profits.

examples:
  pyomo-csg evaluate policy.csg heldout.csv
  pyomo-csg evaluate k5.csg k20.csg heldout.csv --history history.csv --out costs.csv
"""
_REPORT = f"""\
write a page about a policy: one HTML file without external resources

{_EXECUTES}
If you give a table of pairs that the policy was not fitted to, the page also shows
outcomes near each context, and the costs of decisions.

examples:
  pyomo-csg report policy.csg heldout.csv --out report.html
  pyomo-csg report policy.csg
"""
_UPDATE = f"""\
update a policy with new rows, faster than a new fit

{_EXECUTES}
The rows came after those of the policy's history. A trial that has not seen the newest of
them is compared with the old policy there; if it is clearly worse, the new file keeps the
old scenarios and says so.
{_TABLES}

examples:
  pyomo-csg update policy.csg new.csv --out policy2.csg
  pyomo-csg update policy.csg new.csv --window 365 --out policy.csg
  pyomo-csg update policy.csg new.csv --half-life 90 --out policy.csg
"""
_MONITOR = f"""\
test whether new rows still look like the policy's history

{_EXECUTES}
Give all rows since the fit, in their order. Contexts outside the history, costs above what
the fit promised, and alternatives that do better are tested together: a false alarm has
probability --level at most, however often you look.
{_TABLES}

examples:
  pyomo-csg monitor policy.csg since.csv
  pyomo-csg monitor policy.csg since.csv --out drift.html --json drift.json
  pyomo-csg monitor policy.csg since.csv --fail-on drift

With --fail-on drift the exit code is 3 if there is an alarm.
"""
_SERVE = f"""\
serve decisions over HTTP (needs pip install 'pyomo-csg[serve]')

{_EXECUTES}
POST /decide takes one row as a JSON object by column name, or a list of rows. GET /health,
/report and /metrics (Prometheus); /docs describes the API. When the policy's file is
replaced, the new one is loaded without dropping a request. Set PYOMO_CSG_TOKEN to require
an API token; without one, only this machine can be served. --workers are processes.

examples:
  pyomo-csg serve policy.csg --model model.py
  pyomo-csg serve policy.csg --port 8080 --workers 2
"""
_DEMO = """\
a tour in under a minute: fit, evaluate and report a policy for a newsvendor

It writes its files to a new folder and prints every command that it runs, so that you
can continue from there.

examples:
  pyomo-csg demo
  pyomo-csg demo --folder somewhere
"""

Command = Callable[[argparse.Namespace], int]


def parse_arguments(
    commands: Mapping[str, Command], arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Return the parsed arguments, with the function to call as ``command``.

    Options may stand before, between and after positional arguments.
    """
    parsers = _parsers()
    chosen = _command_parser(parsers).parse_args(arguments)
    parser = parsers[chosen.name]
    parser.set_defaults(command=commands[chosen.name])
    return parser.parse_intermixed_args(chosen.arguments)


def _command_parser(
    parsers: Mapping[str, argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Return the parser that only reads the name of the command."""
    lines = (
        f"  {name:10}{str(one.description).splitlines()[0]}"
        for name, one in parsers.items()
    )
    usage = f"{PROGRAM} [-h] [--version] COMMAND ..."
    text = _ALL.format(commands="\n".join(lines))
    parser = _parser(PROGRAM, text, usage=usage)
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    hidden = argparse.SUPPRESS
    parser.add_argument("name", metavar="COMMAND", choices=parsers, help=hidden)
    # Not subparsers: these accept no positional arguments after an option.
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help=hidden)
    rest.required = False
    return parser


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    found: dict[str, argparse.ArgumentParser] = {}

    def add(name: str, text: str, *parents: argparse.ArgumentParser) -> Any:
        found[name] = _parser(
            f"{PROGRAM} {name}", text, parents=[*parents, _message_options()]
        )
        return found[name]

    _add_check(add("check", _CHECK, _model(), _annotation(), _solver_options()))
    _add_solve(add("solve", _SOLVE, _solver_options()))
    _add_fit(add("fit", _FIT, _model(), _annotation(), _solver_options()))
    shared = _policy_model(), _annotation(), _solver_options()
    _add_decide(add("decide", _DECIDE, *shared))
    _add_evaluate(add("evaluate", _EVALUATE, *shared))
    _add_report(add("report", _REPORT, *shared))
    _add_update(add("update", _UPDATE, *shared))
    _add_monitor(add("monitor", _MONITOR, *shared))
    _add_serve(add("serve", _SERVE, *shared))
    demo = add("demo", _DEMO)
    demo.add_argument("--folder", default="csg-demo", help="new folder (%(default)s)")
    return found


def _parser(name: str, text: str, **options: Any) -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(
        name, description=text, formatter_class=kind, **options
    )


def _parent() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(add_help=False)


def _message_options() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("messages")
    group.add_argument("--quiet", action="store_true", help="show no progress bars")
    group.add_argument(
        "--verbose", action="store_true", help="log each stage of the fit"
    )
    group.add_argument(
        "--debug", action="store_true", help="show the traceback of an error"
    )
    return parent


def _model() -> argparse.ArgumentParser:
    parent = _parent()
    parent.add_argument("model", help="a Python file; it is executed")
    return parent


def _policy_model() -> argparse.ArgumentParser:
    parent = _parent()
    parent.add_argument(
        "--model",
        help="the policy's model, a Python file; it is executed "
        "(default: the file that your fit read, or model.py beside the policy)",
    )
    return parent


def _annotation() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("for a model that is not annotated")
    group.add_argument(
        "--first-stage",
        action="append",
        metavar="NAME",
        help="a first-stage variable: its name, or a pattern such as 'order*'; "
        "can be repeated",
    )
    group.add_argument(
        "--uncertain",
        action="append",
        metavar="NAME",
        help="an uncertain mutable Param: its name, or a pattern; can be repeated",
    )
    return parent


def _solver_options() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("solving")
    group.add_argument("--solver", default="highs", help="(%(default)s)")
    group.add_argument("--workers", type=int, default=1, help="(%(default)s)")
    group.add_argument(
        "--option",
        type=_name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="options",
        help="an option of the solver, such as time_limit=10; can be repeated",
    )
    return parent


def _add_check(parser: Any) -> None:
    parser.add_argument("data", nargs="?", help="a table of pairs")
    parser.add_argument("--context", action="append", metavar="COLUMN")
    parser.add_argument("--ignore", action="append", default=[], metavar="COLUMN")
    parser.add_argument("--holidays", metavar="COUNTRY")
    parser.add_argument(
        "--lp",
        metavar="FILE",
        help="where to write the model with its own data if it cannot be solved, such as "
        "own.lp",
    )


def _add_solve(parser: Any) -> None:
    parser.add_argument("model", help="an SMPS file: .cor, .tim or .sto")
    parser.add_argument(
        "--scenarios", type=int, default=1000, help="largest number (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")


def _add_fit(parser: Any) -> None:
    parser.add_argument("data", help="a table of pairs")
    parser.add_argument("--out", required=True, help="the policy's file")
    group = parser.add_argument_group("fit")
    group.add_argument(
        "--scenarios",
        type=_whole_or_auto,
        default=5,
        help="a number, auto or all (%(default)s)",
    )
    group.add_argument(
        "--method", choices=METHODS, default="auto", help="(%(default)s)"
    )
    group.add_argument(
        "--regularization",
        type=_number_or_text,
        default="auto",
        help="lambda of static, dynamic and direct: a number, or a text such as 0.1x",
    )
    group.add_argument(
        "--context",
        action="append",
        metavar="COLUMN",
        help="a column of the context; can be repeated (all columns without outcomes)",
    )
    group.add_argument(
        "--known",
        type=_name_and_range,
        action="append",
        metavar="NAME=LOW:HIGH",
        help="a known Param without a column, and the range to train for; can be repeated",
    )
    group.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column that is not part of the context; can be repeated",
    )
    group.add_argument(
        "--holidays",
        metavar="COUNTRY",
        help="a country, or a part of one, whose holidays count, such as US or DE-BY",
    )
    group.add_argument(
        "--network", help="mlp, lstm, linear, constant or location-scale"
    )
    group.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    group.add_argument(
        "--set",
        type=_name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a setting of csg.FitConfig; can be repeated",
    )
    group.add_argument(
        "--seconds",
        type=float,
        default=DEFAULT_SECONDS,
        metavar="S",
        help="time budget of the fit; the best policy so far is kept (default: 600)",
    )
    group.add_argument(
        "--checkpoint", metavar="FOLDER", help="store finished stages, to resume from"
    )


def _add_decide(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("data", metavar="contexts", help="a table")
    parser.add_argument(
        "--out", help="the table of decisions (standard output, as CSV)"
    )


def _add_evaluate(parser: Any) -> None:
    parser.add_argument("policies", nargs="+", metavar="policy")
    parser.add_argument("data", help="a table of pairs")
    parser.add_argument(
        "--history",
        help="rows that the alternatives learn from, instead of the first policy's own",
    )
    parser.add_argument(
        "--out", help="a table of the costs, or the profits, of each row"
    )


def _add_report(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("data", nargs="?", help="a table of pairs")
    parser.add_argument("--out", help="the page (the policy's path, ending in .html)")


def _add_update(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("data", metavar="rows", help="a table of new rows")
    parser.add_argument(
        "--out", required=True, help="the new policy's file; may be the old one's"
    )
    parser.add_argument(
        "--window", type=int, metavar="ROWS", help="learn from the newest rows only"
    )
    parser.add_argument(
        "--half-life",
        type=float,
        metavar="ROWS",
        help="forget rows by their age: of those that are so old, half are kept",
    )


def _add_monitor(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("data", metavar="rows", help="a table of rows since the fit")
    parser.add_argument("--out", help="a page to write")
    parser.add_argument("--json", metavar="FILE", help="a JSON file to write")
    parser.add_argument(
        "--level", type=float, default=0.05, help="of false alarms (%(default)s)"
    )
    parser.add_argument(
        "--fail-on", choices=("drift",), help="exit with 3 if there is an alarm"
    )


def _add_serve(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("--host", default="127.0.0.1", help="(%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(%(default)s)")


def _whole_or_auto(text: str) -> int | str:
    return text if text in ("auto", "all") else int(text)


_whole_or_auto.__name__ = "number of scenarios"  # its name in argparse's errors


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _name_and_range(text: str) -> tuple[str, tuple[float, float]]:
    """Return the name and the two numbers of ``stock=0:100``."""
    name, _, numbers = text.rpartition("=")
    low, _, high = numbers.partition(":")
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a range; give NAME=LOW:HIGH, such as stock=0:100"
        ) from None


def _name_and_value(text: str) -> tuple[str, Any]:
    """Return the name and value of a text such as 'folds=3'."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
