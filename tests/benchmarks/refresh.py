"""What an update costs beside a new fit on the same rows, in CPU seconds.

Run: python -m tests.benchmarks.refresh
"""

import time

import pyomo_csg as csg
from models import cep1, newsvendor

CASES = [
    (name, module, method)
    for name, module in (("newsvendor", newsvendor), ("cep1", cep1))
    for method in ("auto", "mmd", "static", "direct")
]
ROWS, NEW, SCORED = 300, 30, 300


def measure(module, method):
    """Return CPU seconds of a fit to all rows and of an update, and both verdicts."""
    contexts, outcomes = module.sample(ROWS + NEW, seed=1)
    old_rows, new_rows = slice(None, ROWS), slice(ROWS, None)
    options = {"scenarios": 5, "method": method, "progress": False}
    policy = csg.fit(
        module.build(), (contexts[old_rows], outcomes[old_rows]), **options
    )
    seconds = {}
    start = time.process_time()
    updated = policy.update((contexts[new_rows], outcomes[new_rows]))
    seconds["update"] = time.process_time() - start
    start = time.process_time()
    fitted = csg.fit(module.build(), (contexts, outcomes), **options)
    seconds["fit"] = time.process_time() - start
    return seconds, updated.compare(fitted, module.sample(SCORED, seed=2))


def main():
    """Print a row for each model and method."""
    print("| model | method | fit, s | update, s | times cheaper | than the new fit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, module, method in CASES:
        seconds, verdict = measure(module, method)
        (apart,) = (o for o in verdict.advantages if o.name == "the old policy")
        ratio = seconds["fit"] / seconds["update"]
        print(
            f"| {name} | {method} | {seconds['fit']:.2f} | {seconds['update']:.2f} "
            f"| {ratio:.1f} | {-apart.mean:+.3g} +- {apart.standard_error:.2g} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
