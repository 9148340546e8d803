# shellcheck shell=bash
# What every job does first. SLURM runs a copy of a batch script, so the folder of these files comes
# in SLURM_FILES from submit.sh.
set -euo pipefail

: "${SLURM_FILES:?start jobs with slurm/submit.sh}"
# shellcheck source=settings.sh
source "$SLURM_FILES/settings.sh"
if [[ -n $PREPARE ]]; then
  eval "$PREPARE"
fi
cd "$TRIVIUM_ROOT"
export PYTHONPATH=$TRIVIUM_ROOT
mkdir -p "$WORK"

# The element of an array that this task of a job array is for.
task_of() {
  local -n choices=$1
  local number=${SLURM_ARRAY_TASK_ID:?this job is an array: submit it with --array}
  if ((number >= ${#choices[@]})); then
    echo "error: task $number, but $1 has ${#choices[@]} entries; see slurm/settings.sh" >&2
    exit 2
  fi
  echo "${choices[$number]}"
}
