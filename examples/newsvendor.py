"""Annotate, fit, decide and compare, for a newsvendor. Run: make demo."""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pyomo.environ as pyo
from scipy.stats import lognorm

import pyomo_csg as csg

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COST, PRICE, REFUND = 4.0, 5.0, 1.0
SCENARIOS = 5
QUICK = csg.FitConfig(folds=2, starts=1, mmd_epochs=2, task_epochs=2, hidden=(8,))


def build():
    """Return an ordinary Pyomo model of one day, annotated by one call."""
    m = pyo.ConcreteModel("newsvendor")
    m.demand = pyo.Param(within=pyo.NonNegativeReals, initialize=60, mutable=True)
    m.order = pyo.Var(bounds=(0, 500))
    m.sold = pyo.Var(within=pyo.NonNegativeReals)
    m.returned = pyo.Var(within=pyo.NonNegativeReals)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    m.stock = pyo.Constraint(expr=m.sold + m.returned <= m.order)
    m.profit = pyo.Objective(
        expr=PRICE * m.sold + REFUND * m.returned - COST * m.order, sense=pyo.maximize
    )
    # The order is decided now; the demand is not known yet.
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)
    return m


def demand_distribution(contexts):
    """Return the true conditional distribution: it grows with warmth, and varies with rain."""
    median = 60 * np.exp(0.04 * (contexts["temperature"] - 18))
    return lognorm(s=0.15 + 0.06 * contexts["rain"], scale=median)


def days(n, seed):
    """Draw n days: forecasts of temperature and rain, and the demand."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {"temperature": rng.uniform(8, 28, n), "rain": rng.uniform(0, 8, n)}
    )
    found["demand"] = demand_distribution(found).rvs(random_state=rng)
    return found.round(2)


def best_order(truth):
    """Return the best order for a distribution of demand: the newsvendor's quantile."""
    return truth.ppf((PRICE - COST) / (PRICE - REFUND))


def picture(policy, path):
    """Draw the scenarios of three days over the true distributions of demand."""
    shown = pd.DataFrame(
        {"temperature": [10, 18, 26], "rain": [1, 3, 7]},
        index=["Cool and dry", "Mild, some rain", "Warm and wet"],
    )
    fig, rows = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    demand = np.linspace(0, 200, 500)
    for axes, (name, x) in zip(rows, shown.iterrows(), strict=True):
        truth = demand_distribution(x)
        height = truth.pdf(demand)
        top = height.max()
        axes.fill_between(
            demand, height, color="0.87", label="true distribution of demand"
        )
        for order, style, color, label in (
            (policy.decide(x)["order"], "-", "tab:blue", "the policy's order"),
            (best_order(truth), "--", "black", "best order for the true distribution"),
            (truth.mean(), ":", "tab:red", "expected-value order"),
        ):
            axes.vlines(order, 0, 1.05 * top, color, style, label=label, linewidth=2)
        axes.plot(
            policy.scenarios(x)[:, 0],
            np.full(SCENARIOS, -0.11 * top),
            "^",
            color="tab:blue",
            alpha=0.6,
            markersize=9,
            clip_on=False,
            label=f"the policy's {SCENARIOS} scenarios",
        )
        about = f"{name}\n{x.temperature:g} °C, {x.rain:g} mm of rain"
        axes.text(1, 0.97, about, transform=axes.transAxes, ha="right", va="top")
        axes.set(xlim=(0, demand[-1]), ylim=(-0.22 * top, 1.08 * top), yticks=[])
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.spines[:].set_visible(False)
        axes.tick_params(bottom=axes is rows[-1])
    rows[-1].spines["bottom"].set_visible(True)
    rows[-1].set_xlabel("demand, and papers ordered")
    rows[1].set_ylabel("density of demand")
    fig.suptitle("Newsvendor: scenarios learned for the order that they lead to")
    handles, labels = rows[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    fig.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run in seconds")
    quick = parser.parse_args().quick
    m = build()
    print(csg.TwoStageModel(m), "\n")

    history = days(40 if quick else 300, seed=1)
    print("The history\n", history.head(4).to_string(), "\n  ...\n", sep="")

    policy = csg.fit(
        m,
        history,
        scenarios=SCENARIOS,
        config=QUICK if quick else csg.FitConfig(folds=3, starts=2),
        workers=2,
    )
    chosen = policy.learned.summary
    print(f"\nChosen: {chosen['chosen']}. The probability that it beats the runner-up")
    print(f"is {chosen['confidence']:.0%}. policy.report() shows all candidates.\n")

    tomorrow = {"temperature": 24, "rain": 6}
    decision = policy.decide(tomorrow)
    print("Tomorrow:", tomorrow)
    print("Scenarios:", np.sort(decision.scenarios[:, 0]).round(1))
    print(decision, "\n")

    policy.save("newsvendor.csg")
    policy = csg.load("newsvendor.csg", m)

    fresh, oracle = days(5000, seed=2), csg.Oracle(m)
    truth = demand_distribution(fresh)
    orders = {
        "best possible": best_order(truth),
        "this policy": policy.decide(fresh)["order"].to_numpy(),
        "expected value": truth.mean(),
    }
    demand = fresh[["demand"]].to_numpy()
    profit = {
        name: -oracle.cost(np.minimum(order, 500)[:, None], demand).mean()
        for name, order in orders.items()
    }
    print(f"Profit a day over {len(fresh)} fresh days. The best possible order and the")
    print("expected-value order (the mean demand) know the true distribution:")
    for name, money in profit.items():
        print(f"  {name:16}{money:8.2f}")
    best, ours, mean = profit.values()
    print(f"The policy gains {(ours - mean) / (best - mean):.0%} of the difference.\n")

    picture(policy, "newsvendor.png")
    print("Scenarios over the true distribution:", Path("newsvendor.png").resolve())


if __name__ == "__main__":
    main()
