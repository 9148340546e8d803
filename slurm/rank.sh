#!/usr/bin/env bash
# Tell one process of a training its place, in the words that torch and accelerate read.
set -euo pipefail
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID
export LOCAL_WORLD_SIZE=${SLURM_NTASKS_PER_NODE:-$((SLURM_NTASKS / SLURM_NNODES))}
# accelerate runs no DeepSpeed on what it is told to be a CPU.
if [[ ${GPUS_PER_NODE:-} == 0 && ${DS_ACCELERATOR:-} != cpu ]]; then
  export ACCELERATE_USE_CPU=true
fi
exec "$@"
