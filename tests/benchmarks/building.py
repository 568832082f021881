"""Time to build an extensive form, ours beside mpi-sppy's, per scenario.

Both start from the same model function and scenarios, in one process, interleaved. Ours
builds and annotates one model and transforms it; mpi-sppy's builds one model for each
scenario with that scenario's data, as its scenario_creator does, and joins them.

Run: python -m tests.benchmarks.building
"""

import contextlib
import gc
import io
import statistics
import time

import pyomo.environ as pyo

import pyomo_csg as csg
from models import farmer, sslp

with contextlib.redirect_stdout(io.StringIO()):
    from mpisppy.utils import sputils

REPEATS = 5


def ours(build, scenarios):
    """Build our extensive form."""
    return pyo.TransformationFactory("csg.extensive_form").create_using(
        build(), scenarios=scenarios
    )


def theirs(build, scenarios):
    """Build mpi-sppy's extensive form; each scenario's model is built anew."""
    count = len(scenarios)

    def scenario_creator(name):
        model = build()
        params = sorted(model.csg_uncertain_params, key=model.csg_uncertain_params.get)
        for param, number in zip(params, scenarios[int(name)], strict=True):
            param.set_value(number)
        root = list(model.csg_first_stage_variables)
        sputils.attach_root_node(model, 0.0, root)
        model._mpisppy_probability = 1 / count
        return model

    return sputils.create_EF(
        [str(k) for k in range(count)], scenario_creator, suppress_warnings=True
    )


def cpu_ms(function, build, scenarios):
    """CPU milliseconds per scenario, with the garbage collected beforehand."""
    gc.collect()
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        function(build, scenarios)
    return 1000 * (time.process_time() - start) / len(scenarios)


def compare(label, build, scenarios):
    """Print a row: the medians of interleaved repeats and their ratio."""
    scenarios = scenarios.tolist()
    pairs = [
        (cpu_ms(ours, build, scenarios), cpu_ms(theirs, build, scenarios))
        for _ in range(REPEATS)
    ]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    worst = min(b / a for a, b in pairs)
    print(
        f"| {label} | {mine:.3f} | {other:.3f} | {other / mine:.1f}x | {worst:.1f}x |",
        flush=True,
    )


if __name__ == "__main__":
    print(f"pyomo_csg {csg.__version__}, CPU ms per scenario, median of {REPEATS}\n")
    print("| extensive form | ours | mpi-sppy | ratio | worst ratio |")
    print("| --- | --- | --- | --- | --- |")
    compare("farmer, 1,000 scenarios", farmer.build, farmer.scenarios(1000))
    compare(
        "sslp_15_45, 100 scenarios",
        lambda: sslp.build(servers=15, clients=45),
        sslp.scenarios(100, clients=45),
    )
