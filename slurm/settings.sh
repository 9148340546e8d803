# shellcheck shell=bash disable=SC2034
# Everything that a site or a project decides; the scripts beside this file have nothing of it.
# Each value can be given in the environment instead, as in: PARTITION=gpu slurm/pipeline.sh

# The checkout, and the environment that `make install` made in it. Seen by all nodes.
TRIVIUM_ROOT=${TRIVIUM_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
# An image of containers/trivium.def to run in by Apptainer, seen by all nodes; empty: no container.
# It brings the environment, and the code is the checkout's.
CONTAINER=${CONTAINER:-}
# Further options of `apptainer exec`, such as what else it is to see: --bind /data,/scratch
CONTAINER_OPTIONS=${CONTAINER_OPTIONS:-}
PYTHON=${PYTHON:-${CONTAINER:+/opt/venv/bin/python}}
PYTHON=${PYTHON:-$TRIVIUM_ROOT/.venv/bin/python}
# A line of shell that a job begins with, such as: module load cuda/12.8
PREPARE=${PREPARE:-}

# Where runs, data and logs go. Seen by all nodes.
WORK=${WORK:-$TRIVIUM_ROOT/runs/slurm}

# sbatch options of jobs that need no GPU, and of those that do. Empty: the site's own default.
ACCOUNT=${ACCOUNT:-}
PARTITION=${PARTITION:-}
GPU_PARTITION=${GPU_PARTITION:-$PARTITION}
QOS=${QOS:-}
CPUS_PER_TASK=${CPUS_PER_TASK:-8}
MEMORY=${MEMORY:-64G}
# GPUs of a node, one process each; 0: one process a node, on its CPUs.
GPUS_PER_NODE=${GPUS_PER_NODE:-4}
# For sites that name GPUs otherwise, such as: --gpus-per-node=h100:4
GPU_OPTION=${GPU_OPTION:---gres=gpu:$GPUS_PER_NODE}
NODES=${NODES:-1}
DATA_TIME=${DATA_TIME:-08:00:00}
TRAIN_TIME=${TRAIN_TIME:-24:00:00}
SERVE_TIME=${SERVE_TIME:-24:00:00}
EVALUATE_TIME=${EVALUATE_TIME:-12:00:00}
# Seconds before the end of its time at which a training saves, stops and goes back in the queue, and
# a command on Ray stops and goes back.
GRACE=${GRACE:-300}
# Port on which the processes of a training meet; the job's id is added, so that two jobs that
# share a node do not meet each other. 12,000 ports from here on, below those that Linux gives to
# outgoing connections. And where a model is served: an address other than 127.0.0.1 needs a key for
# its clients, TRIVIUM_API_KEY in the environment.
FIRST_PORT=${FIRST_PORT:-20000}
SERVE_HOST=${SERVE_HOST:-0.0.0.0}
SERVE_PORT=${SERVE_PORT:-8000}
# Where milvus.sbatch listens. It has no key, so that there is no default: see there.
MILVUS_HOST=${MILVUS_HOST:-}
MILVUS_PORT=${MILVUS_PORT:-19530}

# Lists below are words with spaces between. Bash arrays could not be: they reach no job.
# Annotated questions, as data_gen/build_*.py take them: NAME=PATH, several.
SOURCES=${SOURCES:-}
# Builders, one task of the array each.
BUILDERS=${BUILDERS:-build_subq build_triples build_conditions}
# Further options of all builders, and into how many shards, one task each, a build is dealt.
DATA_OPTIONS=${DATA_OPTIONS:-}
SHARDS=${SHARDS:-1}
# Recipes in configs/, without .yaml.
T2T_RECIPE=${T2T_RECIPE:-t2t_llama3_2_3b}
RAS_RECIPE=${RAS_RECIPE:-ras_llama3_8b}
TRI_RAG_RECIPE=${TRI_RAG_RECIPE:-tri_rag_llama3_8b}
# Values of these recipes to change, key=value, several, such as: model.backbone=FOLDER
T2T_VALUES=${T2T_VALUES:-}
RAS_VALUES=${RAS_VALUES:-}
TRI_RAG_VALUES=${TRI_RAG_VALUES:-}
# ddp, fsdp2, zero2 or zero3; the last two need the extra `deepspeed`.
PARALLEL=${PARALLEL:-ddp}
# Questions to evaluate on, the corpus to search, and the loops, one task of the array each.
QUESTIONS=${QUESTIONS:-}
CORPUS=${CORPUS:-}
LOOPS=${LOOPS:-single ras ras_no_planning}
# Further options of evaluate.py, and into how many shards, one task each, the questions are dealt.
EVALUATE_OPTIONS=${EVALUATE_OPTIONS:-}
QUESTION_SHARDS=${QUESTION_SHARDS:-1}
# Options that ray.sbatch adds to its command when the job was requeued: --resume for evaluate.py.
RESUME_OPTIONS=${RESUME_OPTIONS:-}
