#!/usr/bin/env bash
# Submit an improvement by outcomes: a job a round, each after the one before.
#
#   slurm/improve.sh RECIPE OUT_DIR ROUNDS [key=value ...]
#   NODES=4 slurm/improve.sh ras_smollm2 OUT 3 'loop=[--loop,ras,--engine,ray,--engines,16]' ...
#
# A job runs training/improve.py on a Ray cluster of its nodes; a round trains on the first of them.
# Near the end of its time it is requeued and goes on in its round; where a round fails, those after
# it are cancelled.
set -euo pipefail
SLURM_FILES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=settings.sh
source "$SLURM_FILES/settings.sh"

if (($# < 3)) || ! [[ $3 =~ ^[1-9][0-9]*$ ]]; then
  echo "error: give a recipe of configs/improve, an output folder and a number of rounds" >&2
  exit 2
fi
recipe=$1 out=$2 rounds=$3
shift 3

values=(output_dir="$out")
if ((GPUS_PER_NODE > 1)); then
  launch=$PYTHON,-m,accelerate.commands.launch,--num_processes,$GPUS_PER_NODE
  values+=("learning.launcher=[$launch]")
fi
after=()
for ((round = 1; round <= rounds; round++)); do
  # What was given comes last and wins, but for how far a job goes.
  job=$("$SLURM_FILES/submit.sh" --kill-on-invalid-dep=yes --job-name=improve "${after[@]}" -- \
    ray.sbatch training/improve.py --config "configs/improve/$recipe.yaml" \
    "${values[@]}" "$@" rounds="$round")
  echo "round $round  $job"
  after=(--dependency="afterok:$job")
done
