"""Contexts with their conditional law, and what the full program on that law costs.

The full programs take minutes to hours, so answers are kept in ``.benchmarks/``, case by
case: a run that was stopped goes on where it was.

Run: python -m tests.benchmarks.cases newsvendor|cep1|mnv|cvar [trial ...]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

import pyomo_csg as csg
from models import cep1, cvar_portfolio, mnv, newsvendor

STORE = Path(".benchmarks")
TRIALS = range(5)
EVALUATION_SEED = 1_000_000


@dataclass(frozen=True)
class Problem:
    """One of the paper's problems, at the size it is compared at.

    Attributes
    ----------
    module : module
        With ``build``, ``sample`` and ``conditional``.
    pairs, contexts : int
        How many pairs to learn from, and on how many contexts to compare.
    options : dict
        Of HiGHS, for the full program.
    """

    module: object
    pairs: int
    contexts: int
    options: dict

    def history(self, trial):
        """Return the pairs (contexts, outcomes) to learn from."""
        if self.module is cvar_portfolio:
            contexts, outcomes = cvar_portfolio.history(trial)
            return contexts[: self.pairs], outcomes[: self.pairs]
        return self.module.sample(self.pairs, 17 * trial + 1, generator=trial)

    def evaluation_contexts(self, trial):
        """Return the contexts to compare on: for the market, later than the history."""
        if self.module is cvar_portfolio:
            later = cvar_portfolio.history(trial)[0][self.pairs :]
            return later[np.linspace(0, len(later) - 1, self.contexts).astype(int)]
        seed = EVALUATION_SEED + trial
        return self.module.sample(self.contexts, seed, generator=trial)[0]


PROBLEMS = {
    "newsvendor": Problem(newsvendor, 500, 200, {}),
    "cep1": Problem(cep1, 500, 200, {}),
    "mnv": Problem(mnv, 300, 40, {"mip_rel_gap": 1e-3}),
    "cvar": Problem(cvar_portfolio, 1247, 60, {"mip_rel_gap": 1e-4}),
}


class Cases:
    """The contexts of a trial, each with its law and the value of the full program.

    Parameters
    ----------
    name : str
        Of the problem.
    trial : int
        The seed of the generator, too.
    """

    def __init__(self, name, trial):
        self.problem, self.name, self.trial = PROBLEMS[name], name, trial
        self.model = self.problem.module.build()
        self.contexts = self.problem.evaluation_contexts(trial)
        self.oracle = csg.Oracle(self.model)
        self.values = self._kept("values", self._full_value)

    def law(self, context):
        """Return the outcomes that a context makes possible, and their weights."""
        return self.problem.module.conditional(context, generator=self.trial)

    def gaps(self, decisions):
        """Return how far decisions (n, s) are above the full program, relatively."""
        costs = []
        for context, decision in zip(self.contexts, decisions, strict=True):
            outcomes, weights = self.law(context)
            costs.append(weights @ self.oracle.cost(decision, outcomes, progress=False))
        return (np.array(costs) - self.values) / np.abs(self.values)

    def mean_decisions(self):
        """Return the decisions (n, s) on the true conditional mean."""
        means = []
        for context in self.contexts:
            outcomes, weights = self.law(context)
            means.append(weights @ outcomes)
        return self.oracle.solve(np.array(means)[:, None], progress=False).decision

    def _full_value(self, context):
        outcomes, weights = self.law(context)
        full = csg.Oracle(self.model, options=self.problem.options)
        y = full.solve(outcomes, weights).decision
        return float(weights @ self.oracle.cost(y, outcomes, progress=False))

    def _kept(self, what, compute):
        STORE.mkdir(exist_ok=True)
        path = STORE / f"{self.name}-{self.trial}-{what}.csv"
        found = list(np.loadtxt(path, ndmin=1)) if path.exists() else []
        label = f"{self.name} {self.trial} {what}"
        for context in tqdm(self.contexts[len(found) :], desc=label, delay=5):
            found.append(compute(context))
            with path.open("a") as file:
                file.write(f"{found[-1]!r}\n")
        return np.array(found[: len(self.contexts)])


if __name__ == "__main__":
    for number in [int(n) for n in sys.argv[2:]] or TRIALS:
        cases = Cases(sys.argv[1], number)
        ev = 100 * cases.gaps(cases.mean_decisions())
        print(sys.argv[1], number, f"EV gap {np.median(ev):.2f} {ev.mean():.2f}")
