#!/usr/bin/env bash
# Submit everything: data, the three trainings, evaluation, its table. Each job waits for those whose
# work it needs; where one fails, those after it are cancelled.
#
#   slurm/pipeline.sh
set -euo pipefail
SLURM_FILES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=settings.sh
source "$SLURM_FILES/settings.sh"

submit() { "$SLURM_FILES/submit.sh" --kill-on-invalid-dep=yes "$@"; }
# The array with a task for each word of a list, or with so many for each.
tasks() {
  local words
  read -r -a words <<<"$1"
  echo "--array=0-$((${2:-1} * ${#words[@]} - 1))"
}
# Train on what a builder makes: name, recipe, builder, values of the recipe to change.
train() {
  local values
  read -r -a values <<<"$4"
  submit --dependency="afterok:$data" -- \
    "train_$1.sbatch" "$2" "$WORK/data/$3" "$WORK/$1" "${values[@]}"
}

data=$(submit "$(tasks "$BUILDERS" "$SHARDS")" -- build_data.sbatch)
echo "data        $data"
if ((SHARDS > 1)); then
  data=$(submit --dependency="afterok:$data" "$(tasks "$BUILDERS")" -- merge_data.sbatch)
  echo "merged data $data"
fi
t2t=$(train t2t "$T2T_RECIPE" build_triples "$T2T_VALUES")
echo "t2t         $t2t"
ras=$(train ras "$RAS_RECIPE" build_subq "$RAS_VALUES")
echo "ras         $ras"
tri_rag=$(train tri_rag "$TRI_RAG_RECIPE" build_conditions "$TRI_RAG_VALUES")
echo "tri_rag     $tri_rag"
results=$(submit --dependency="afterok:$t2t:$ras" "$(tasks "$LOOPS" "$QUESTION_SHARDS")" -- \
  evaluate.sbatch --ras "$WORK/ras" --t2t "$WORK/t2t")
echo "evaluation  $results"
merged=$(submit --dependency="afterok:$results" -- merge.sbatch)
echo "table       $merged"
