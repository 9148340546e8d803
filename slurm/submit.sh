#!/usr/bin/env bash
# Submit one job with the options of settings.sh; prints its id.
#
#   slurm/submit.sh [sbatch option ...] -- slurm/NAME.sbatch [argument ...]
set -euo pipefail
SLURM_FILES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLURM_FILES
# shellcheck source=settings.sh
source "$SLURM_FILES/settings.sh"

options=()
while (($#)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
if (($# < 2)); then
  sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
shift
script=$1
shift
[[ -f $script ]] || script=$SLURM_FILES/$(basename "$script")
name=$(basename "$script" .sbatch)
mkdir -p "$WORK/logs"
log=%x-%j
for option in "${options[@]}"; do
  case $option in --array* | -a*) log=%x-%A_%a ;; esac
done

common=(--parsable --export=ALL --job-name="$name" --cpus-per-task="$CPUS_PER_TASK")
common+=(--mem="$MEMORY" --output="$WORK/logs/$log.out" --open-mode=append)
[[ -z $ACCOUNT ]] || common+=(--account="$ACCOUNT")
[[ -z $QOS ]] || common+=(--qos="$QOS")

partition=$PARTITION
case $name in
  train | train_*)
    partition=$GPU_PARTITION
    tasks=$((GPUS_PER_NODE > 0 ? GPUS_PER_NODE : 1))
    # Without B: the signal goes to the processes of the step, not to this batch script.
    common+=(--time="$TRAIN_TIME" --nodes="$NODES" --ntasks-per-node="$tasks")
    common+=(--requeue --signal="USR1@$GRACE")
    ((GPUS_PER_NODE == 0)) || common+=("$GPU_OPTION")
    ;;
  ray)
    partition=$GPU_PARTITION
    # With B: the batch script ends the command and requeues the job.
    common+=(--time="$EVALUATE_TIME" --nodes="$NODES" --ntasks-per-node=1)
    common+=(--requeue --signal="B:USR1@$GRACE")
    ((GPUS_PER_NODE == 0)) || common+=("$GPU_OPTION")
    ;;
  serve | evaluate)
    partition=$GPU_PARTITION
    [[ $name == serve ]] && time=$SERVE_TIME || time=$EVALUATE_TIME
    common+=(--time="$time" --nodes=1 --ntasks=1)
    ((GPUS_PER_NODE == 0)) || common+=("$GPU_OPTION")
    ;;
  milvus) common+=(--time="$SERVE_TIME" --nodes=1 --ntasks=1) ;;
  *) common+=(--time="$DATA_TIME" --nodes=1 --ntasks=1) ;;
esac
[[ -z $partition ]] || common+=(--partition="$partition")

# Several clusters answer "id;cluster".
sbatch "${common[@]}" "${options[@]}" "$script" "$@" | cut -d';' -f1
