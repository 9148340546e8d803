#!/bin/sh
# Install Trivium into an image, step by step: what Dockerfile and trivium.def have in common.
#
#   install.sh system      Debian's packages
#   install.sh packages    what pyproject.toml asks for, in the versions of constraints.txt
#   install.sh code        the project itself, as it lies in /opt/trivium
#
# ENGINE: cpu, cuda (vLLM's build) or none. EXTRAS: of pyproject.toml. TORCH_INDEX: see the Makefile.
set -eu
root=/opt/trivium venv=/opt/venv
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

case "${1:-}" in
  system)
    # Compilers and Python.h: triton compiles on a GPU, and torch.compile on a CPU.
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends \
      ca-certificates g++ libnuma1 make python3.11 python3.11-dev python3.11-venv
    rm -rf /var/lib/apt/lists/*
    ;;
  packages)
    case "${ENGINE:-}" in
      cpu | cuda) targets="install vllm-$ENGINE" ;;
      none) targets=install ;;
      *)
        echo "error: ENGINE=${ENGINE:-}: write cpu, cuda or none" >&2
        exit 2
        ;;
    esac
    # shellcheck disable=SC2086
    make -C "$root" $targets VENV="$venv" PYTHON3=python3.11 EXTRAS="$EXTRAS"
    ;;
  code)
    # Once more, now that there are packages to find; and compiled, as the image is read-only.
    "$venv/bin/python" -m pip install -q --no-deps -e "$root"
    "$venv/bin/python" -m compileall -q "$root"
    chmod -R a+rX "$root"
    ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
