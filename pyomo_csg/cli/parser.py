"""What pyomo-csg understands."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyomo_csg import __version__
from pyomo_csg.validation import METHODS

PROGRAM = "pyomo-csg"

_EXECUTES = """\
A model is a Python file with a function build() or pyomo_create_model(), or an object
model. It is executed: give only files that you trust."""
_TABLES = "Tables are CSV, or Parquet by their ending .parquet."
_ALL = f"""\
learn which few scenarios to solve a two-stage model on, and decide with them

{_EXECUTES}
{_TABLES}

examples:
  pyomo-csg demo
  pyomo-csg check model.py
  pyomo-csg fit model.py history.csv --scenarios 5 --out policy.csg
  pyomo-csg decide policy.csg contexts.csv --out decisions.csv
  pyomo-csg evaluate policy.csg heldout.csv
  pyomo-csg report policy.csg heldout.csv --out report.html

commands:
{{commands}}

'pyomo-csg COMMAND --help' says more.
exit codes: 0 done, 1 a problem was found, 2 wrong usage, 130 interrupted
"""
_CHECK = f"""\
show the stages of a model, and every problem with it

{_EXECUTES}
The program of the model's own data is solved, too. With a table of pairs, its columns
are checked against the model.

examples:
  pyomo-csg check model.py
  pyomo-csg check model.py history.csv
  pyomo-csg check model.py --first-stage 'order*' --uncertain demand
  pyomo-csg check lands.cor

A problem in SMPS files (.cor, .tim, .sto) is read, not executed.
"""
_SOLVE = """\
solve a problem in SMPS files on all its scenarios, or on a sample of them

Give one of the three files, with the other two beside it. If the problem has no more
scenarios than --scenarios, all are taken, with their probabilities; otherwise that many
are drawn.

examples:
  pyomo-csg solve lands.cor
  pyomo-csg solve ssn.cor --scenarios 200 --seed 1
"""
_FIT = f"""\
learn a policy from a table of contexts and what then happened

{_EXECUTES}
The table has a column for each uncertain number, by its Pyomo name, such as demand[1];
the others, or those named by --context, are the context.
{_TABLES}

examples:
  pyomo-csg fit model.py history.csv --out policy.csg
  pyomo-csg fit model.py history.csv --scenarios auto --method mmd --out policy.csg
  pyomo-csg fit model.py history.csv --context rain --context price --out policy.csg
  pyomo-csg fit model.py history.csv --set folds=3 --set hidden=32,32 --out policy.csg
  pyomo-csg fit model.py history.csv --set rows=series --out policy.csg
  pyomo-csg fit model.py history.csv --seconds 600 --checkpoint run --out policy.csg

After Ctrl-C, or a crash, the same command with the same --checkpoint goes on.
"""
_DECIDE = f"""\
decide for the contexts of a table

{_EXECUTES}
The policy's file holds numbers and text only. Without --model, the model is model.py in
the folder of the policy. What comes out are the table's columns and one for each
first-stage variable.
{_TABLES}

examples:
  pyomo-csg decide policy.csg contexts.csv --out decisions.csv
  pyomo-csg decide policy.csg contexts.csv --model newsvendor.py > decisions.csv

A context without a decision has empty cells; the exit code is then 1.
"""
_EVALUATE = f"""\
compare what policies' decisions cost on pairs that they have not seen

{_EXECUTES}
Beside the policies stand the expected-value decision, on a forecast of the mean outcome
by a random forest, and the context-free decision, one for all contexts, on past
outcomes. They learn from --history; without it from the table, each fifth of it from
the other four. Differences are paired and have standard errors.

examples:
  pyomo-csg evaluate policy.csg heldout.csv
  pyomo-csg evaluate k5.csg k20.csg heldout.csv --history history.csv --out costs.csv
"""
_REPORT = f"""\
write a page that shows a policy: one HTML file that needs nothing else

{_EXECUTES}
With a table of pairs that were not learned from, the page shows scenarios over the data
near them, and what decisions cost.

examples:
  pyomo-csg report policy.csg heldout.csv --out report.html
  pyomo-csg report policy.csg
"""
_DEMO = """\
a story in under a minute: a newsvendor's model and history, fitted, judged and shown

It writes its files to a new folder and prints every command that it runs, so that you
can go on from there.

examples:
  pyomo-csg demo
  pyomo-csg demo --folder somewhere
"""

Command = Callable[[Any], int]


def parse_arguments(
    commands: Mapping[str, Command], arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Return what was asked for, with the ``command`` to be called with it.

    Options may stand before, between and after what has no name.
    """
    parsers = _parsers()
    asked = _chooser(parsers).parse_args(arguments)
    one = parsers[asked.name]
    one.set_defaults(command=commands[asked.name])
    return one.parse_intermixed_args(asked.arguments)


def _chooser(
    parsers: Mapping[str, argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Return the parser that only finds out which command is meant."""
    lines = (
        f"  {name:10}{str(one.description).splitlines()[0]}"
        for name, one in parsers.items()
    )
    usage = f"{PROGRAM} [-h] [--version] COMMAND ..."
    text = _ALL.format(commands="\n".join(lines))
    chooser = _parser(PROGRAM, text, usage=usage)
    chooser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}"
    )
    unseen = argparse.SUPPRESS
    chooser.add_argument("name", metavar="COMMAND", choices=parsers, help=unseen)
    # Not subparsers: those take nothing without a name after an option.
    rest = chooser.add_argument("arguments", nargs=argparse.REMAINDER, help=unseen)
    rest.required = False
    return chooser


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    found: dict[str, argparse.ArgumentParser] = {}

    def add(name: str, text: str, *parents: argparse.ArgumentParser) -> Any:
        found[name] = _parser(f"{PROGRAM} {name}", text, parents=[*parents, _every()])
        return found[name]

    _add_check(add("check", _CHECK, _model(), _annotation(), _solving()))
    _add_solve(add("solve", _SOLVE, _solving()))
    _add_fit(add("fit", _FIT, _model(), _annotation(), _solving()))
    kept = _policy_model(), _annotation(), _solving()
    _add_decide(add("decide", _DECIDE, *kept))
    _add_evaluate(add("evaluate", _EVALUATE, *kept))
    _add_report(add("report", _REPORT, *kept))
    demo = add("demo", _DEMO)
    demo.add_argument("--folder", default="csg-demo", help="a new one (%(default)s)")
    return found


def _parser(name: str, text: str, **options: Any) -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(
        name, description=text, formatter_class=kind, **options
    )


def _parent() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(add_help=False)


def _every() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("what is told")
    group.add_argument("--quiet", action="store_true", help="draw no progress bars")
    group.add_argument("--verbose", action="store_true", help="tell each stage")
    group.add_argument(
        "--debug", action="store_true", help="show the whole trace of an error"
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
        "(model.py in the folder of the policy)",
    )
    return parent


def _annotation() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("for a model that is not annotated")
    group.add_argument(
        "--first-stage",
        action="append",
        metavar="NAME",
        help="a variable that is decided now: its name, or a pattern such as 'order*'; "
        "may be given again",
    )
    group.add_argument(
        "--uncertain",
        action="append",
        metavar="NAME",
        help="a mutable Param that is not known yet, likewise",
    )
    return parent


def _solving() -> argparse.ArgumentParser:
    parent = _parent()
    group = parent.add_argument_group("solving")
    group.add_argument("--solver", default="highs", help="(%(default)s)")
    group.add_argument("--workers", type=int, default=1, help="(%(default)s)")
    group.add_argument(
        "--option",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="options",
        help="of the solver, such as time_limit=10; may be given again",
    )
    return parent


def _add_check(parser: Any) -> None:
    parser.add_argument("data", nargs="?", help="a table of pairs")
    parser.add_argument("--context", action="append", metavar="COLUMN")
    parser.add_argument(
        "--lp",
        metavar="FILE",
        help="where to write the program of the model's own data, if it cannot be "
        "solved, such as own.lp",
    )


def _add_solve(parser: Any) -> None:
    parser.add_argument("model", help="a file of SMPS: .cor, .tim or .sto")
    parser.add_argument(
        "--scenarios", type=int, default=1000, help="at most (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")


def _add_fit(parser: Any) -> None:
    parser.add_argument("data", help="a table of pairs")
    parser.add_argument("--out", required=True, help="the policy's file")
    group = parser.add_argument_group("learning")
    group.add_argument(
        "--scenarios", type=_whole_or_auto, default=5, help="or auto (%(default)s)"
    )
    group.add_argument(
        "--method", choices=METHODS, default="auto", help="(%(default)s)"
    )
    group.add_argument(
        "--regularization",
        type=_number_or_text,
        default="auto",
        help="lambda of static, dynamic and direct: a number, or text such as 0.1x",
    )
    group.add_argument(
        "--context",
        action="append",
        metavar="COLUMN",
        help="a column of the context; may be given again (all that are no outcomes)",
    )
    group.add_argument(
        "--network", help="mlp, lstm, linear, constant or location-scale"
    )
    group.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    group.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a setting of csg.FitConfig; may be given again",
    )
    group.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="when to stop learning, and to take the best so far",
    )
    group.add_argument(
        "--checkpoint", metavar="FOLDER", help="keep finished stages, to go on from"
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
    parser.add_argument("--history", help="what the other decisions learn from")
    parser.add_argument("--out", help="a table of the costs, pair by pair")


def _add_report(parser: Any) -> None:
    parser.add_argument("policy")
    parser.add_argument("data", nargs="?", help="a table of pairs")
    parser.add_argument("--out", help="the page (that of the policy, ending in .html)")


def _whole_or_auto(text: str) -> int | str:
    return text if text == "auto" else int(text)


_whole_or_auto.__name__ = "number of scenarios"  # as argparse calls it in its errors


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _setting(text: str) -> tuple[str, Any]:
    """Return the name and value of a text such as 'folds=3'."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
