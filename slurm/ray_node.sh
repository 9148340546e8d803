#!/usr/bin/env bash
# Be one node of a job's Ray cluster, the head in the first task: ray_node.sh PYTHON [its words].
set -euo pipefail
options=(--block --disable-usage-stats --num-cpus "$CPUS_PER_TASK" --num-gpus "$GPUS_PER_NODE")
if ((SLURM_PROCID == 0)); then
  exec "$@" -m ray.scripts.scripts start --head --node-ip-address "${RAY_ADDRESS%:*}" \
    --port "${RAY_ADDRESS##*:}" --include-dashboard=false --temp-dir "$RAY_FOLDER" "${options[@]}"
fi
exec "$@" -m ray.scripts.scripts start --address "$RAY_ADDRESS" "${options[@]}"
