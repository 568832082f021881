"""Label pairs of scenarios and outcome on a Dask cluster.

On this machine, two processes:

    pip install pyomo-csg[dask]
    python examples/oracle_dask.py

On several machines, each with pyomo-csg installed: a scheduler on one of them, a worker with
as many processes as it has cores on each, and the scheduler's address for the script:

    dask scheduler
    dask worker tcp://SCHEDULER:8786 --nworkers auto --nthreads 1
    python examples/oracle_dask.py tcp://SCHEDULER:8786
"""

import sys

import numpy as np
from distributed import Client

import pyomo_csg as csg
from pyomo_csg.zoo import cep1


def main(address=None):
    """Use the cluster at an address, or one of two processes on this machine."""
    here = {} if address else {"n_workers": 2, "threads_per_worker": 1}
    with Client(address, **here) as client:
        workers = sum(client.nthreads().values())
        oracle = csg.Oracle(
            cep1.build(), executor=client.get_executor(), workers=workers
        )
        contexts, outcomes = cep1.sample(1000, seed=0)
        rng = np.random.default_rng(0)
        scenarios = np.array([rng.choice(cep1.conditional(x)[0], 5) for x in contexts])
        losses = oracle.loss(scenarios, outcomes)
        print(f"{len(losses)} labels by {workers} workers of {client.dashboard_link}")
        print(f"Deciding on 5 drawn demands costs {losses.mean():,.0f} on average")


if __name__ == "__main__":  # Dask's processes on this machine import this file
    main(*sys.argv[1:])
