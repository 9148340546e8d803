"""Ray clusters of several nodes on this machine, and pools of engines without a model."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from inference.engines.contract import Engine, EngineOptions
from inference.engines.ray.cluster import SETTINGS
from inference.engines.ray.engine import RayEngine
from tests.inference.pool_engines import echo

HEAD = {"include_dashboard": False, "object_store_memory": 100 * 2**20}


@contextmanager
def ray_cluster(nodes: int, cpus: int = 1) -> Iterator[Any]:
    """A cluster of Ray's own for tests: `address`, `add_node`, `remove_node`."""
    from ray.cluster_utils import Cluster

    # Ray writes the address of the newest cluster there, and its sockets' paths must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    (folder / "ray").mkdir()
    with mock.patch.dict(os.environ, {"RAY_TMPDIR": str(folder), **SETTINGS}):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, **HEAD})
        try:
            for _ in range(nodes - 1):
                cluster.add_node(num_cpus=cpus, object_store_memory=HEAD["object_store_memory"])
            yield cluster
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def echo_pool(backbone: Path, engines: int = 1, **options: Any) -> Engine:
    """A pool of engines without a model."""
    given = EngineOptions("ray", engines=engines, **{"engine_cpus": 0.1, **options})
    return RayEngine(echo, given, str(backbone))
