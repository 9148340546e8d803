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

# The words before a program of Python: the interpreter, in its container where one is set.
python=("$PYTHON")
enter_container() {
  local folder options
  python=(apptainer exec --pwd "$TRIVIUM_ROOT")
  for folder in "$TRIVIUM_ROOT" "$SLURM_FILES" "$WORK" "${TRIVIUM_CACHE:-}" "${HF_HOME:-}"; do
    [[ -z $folder ]] || python+=(--bind "$folder")
  done
  ((GPUS_PER_NODE == 0)) || python+=(--nv)
  read -r -a options <<<"$CONTAINER_OPTIONS"
  python+=("${options[@]}" "$CONTAINER" "$PYTHON")
}
[[ -z $CONTAINER ]] || enter_container

# The word of a list that this task of a job array is for; each has PARTS tasks, by default 1.
task_of() {
  local words parts=${2:-1}
  read -r -a words <<<"${!1}"
  local number=${SLURM_ARRAY_TASK_ID:?this job is an array: submit it with --array}
  if ((number >= parts * ${#words[@]})); then
    echo "error: task $number, but $1 in settings.sh has ${#words[@]} entries, $parts task(s) each" >&2
    exit 2
  fi
  echo "${words[$((number / parts))]}"
}

# Which of the PARTS of its word this task makes, from 1.
part_of() { echo "$((SLURM_ARRAY_TASK_ID % $1 + 1))"; }

# The port that this job's processes meet at. Those from 32768 on Linux gives to outgoing connections.
job_port() { echo "$((FIRST_PORT + SLURM_JOB_ID % 12000))"; }
