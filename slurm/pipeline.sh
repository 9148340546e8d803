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
data_of() { echo "$WORK/data/$1"; }

data=$(submit --array="0-$((${#BUILDERS[@]} - 1))" -- build_data.sbatch)
echo "data        $data"
t2t=$(submit --dependency="afterok:$data" -- \
  train.sbatch t2t "$T2T_RECIPE" "$(data_of build_triples)" "$WORK/t2t")
echo "t2t         $t2t"
ras=$(submit --dependency="afterok:$data" -- \
  train.sbatch ras "$RAS_RECIPE" "$(data_of build_subq)" "$WORK/ras")
echo "ras         $ras"
tri_rag=$(submit --dependency="afterok:$data" -- \
  train.sbatch tri_rag "$TRI_RAG_RECIPE" "$(data_of build_conditions)" "$WORK/tri_rag")
echo "tri_rag     $tri_rag"
results=$(submit --dependency="afterok:$t2t:$ras" --array="0-$((${#LOOPS[@]} - 1))" -- \
  evaluate.sbatch --ras "$WORK/ras" --t2t "$WORK/t2t")
echo "evaluation  $results"
merged=$(submit --dependency="afterok:$results" -- merge.sbatch)
echo "table       $merged"
