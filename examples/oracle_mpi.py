"""Label pairs of scenarios and outcome on the ranks of an MPI job.

One rank asks, the others work; on this machine, two of them:

    pip install pyomo-csg[mpi]
    mpiexec -n 3 python -m mpi4py.futures examples/oracle_mpi.py

On a cluster the same line goes into the job script, with the scheduler's mpiexec or srun and
as many ranks as the job has cores:

    srun -n 128 python -m mpi4py.futures examples/oracle_mpi.py
"""

import numpy as np
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

import pyomo_csg as csg
from pyomo_csg.zoo import cep1


def main():
    """Ask from the first rank; mpi4py.futures keeps the others waiting for work."""
    workers = MPI.COMM_WORLD.size - 1
    with MPIPoolExecutor() as executor:
        oracle = csg.Oracle(cep1.build(), executor=executor, workers=workers)
        contexts, outcomes = cep1.sample(1000, seed=0)
        rng = np.random.default_rng(0)
        scenarios = np.array([rng.choice(cep1.conditional(x)[0], 5) for x in contexts])
        losses = oracle.loss(scenarios, outcomes)
    print(f"{len(losses)} labels by {workers} ranks")
    print(f"Deciding on 5 drawn demands costs {losses.mean():,.0f} on average")


if __name__ == "__main__":  # the workers import this file
    main()
