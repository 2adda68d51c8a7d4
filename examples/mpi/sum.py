"""An MPI job: every rank adds its part, all get the sum, round after round. Rank 0 prints a JSON line a round.

    mpirun -n 8 python3 sum.py --rounds 20
"""

import argparse
import json
import socket

from mpi4py import MPI


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    hosts = world.gather(socket.gethostname())
    if world.rank == 0:
        print(json.dumps({"event": "start", "worldSize": world.size, "hosts": hosts}), flush=True)
    total = 0
    for number in range(1, options.rounds + 1):
        total = world.allreduce(number * (world.rank + 1))
        if world.rank == 0:
            print(json.dumps({"round": number, "sum": total}), flush=True)
    expected = options.rounds * world.size * (world.size + 1) // 2
    if total != expected:
        raise SystemExit(f"rank {world.rank}: the sum is {total}, not {expected}")
    if world.rank == 0:
        print(json.dumps({"event": "end", "sum": total}), flush=True)


main()
