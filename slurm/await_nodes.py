"""Wait until the Ray cluster at RAY_ADDRESS has so many nodes.

slurm/await_nodes.py COUNT [--seconds SECONDS]
"""

import os
import sys
import time
from contextlib import suppress

from common.commands import command_parser, one_line_errors
from common.errors import UserError
from inference.engines.ray.cluster import ADDRESS_VARIABLE, ClusterError, connect


class NodesMissingError(UserError):
    """Nodes of a cluster that did not come."""


def alive() -> int:
    """Return how many nodes the cluster has; 0 while its head is not there."""
    import ray

    with suppress(ClusterError):
        connection = connect(os.environ[ADDRESS_VARIABLE])
        try:
            return sum(node["Alive"] for node in ray.nodes())
        finally:
            connection.leave()
    return 0


@one_line_errors()
def main() -> None:
    """Run the command."""
    parser = command_parser(__doc__)
    parser.add_argument("count", type=int, help="nodes, the head among them")
    parser.add_argument("--seconds", type=float, default=300.0, help="at most (default: 300)")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    while (found := alive()) < options.count:
        if time.monotonic() > end:
            raise NodesMissingError(
                f"{found} of {options.count} nodes joined {os.environ[ADDRESS_VARIABLE]} in "
                f"{options.seconds:.0f} seconds: see the job's log for what the others said"
            )
        time.sleep(1)
    print(f"{found} nodes at {os.environ[ADDRESS_VARIABLE]}", file=sys.stderr)


if __name__ == "__main__":
    main()
