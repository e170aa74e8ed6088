#!/usr/bin/env bash
# An environment exactly as locked: install.sh cpu|gpu PYTHON FOLDER. Nothing is resolved, so nothing can surprise.
set -euo pipefail
kind=$1 python=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
lock=$here/$kind.lock
declare -A gigabytes=([cpu]=8 [gpu]=25)
fail() { echo "install.sh: $*" >&2; exit 2; }

[ -e "$lock" ] || fail "there is no environment '$kind'; it must be cpu or gpu."
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null ||
    fail "'$python' is not Python 3.11 or 3.12; call make with PYTHON=/path/to/python3.11."
free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
[ "$free" -ge "${gigabytes[$kind]}" ] || fail "the environment needs ${gigabytes[$kind]} GiB of disk, $free are free here."

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

# torch's CPU build lies in PyTorch's own index; plain registries serve a CUDA build under the same version. A registry
# configured on this machine (a mirror, a wheel folder) that has the CPU build comes first.
if [ "$kind" = cpu ]; then
    torch=$(grep '^torch==' "$lock")
    if ! "$folder/bin/python" -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' 2>/dev/null; then
        pip install -q --no-deps --find-links "${TORCH_WHEELS:-$here}" "$torch+cpu" 2>/dev/null ||
            pip install -q --no-deps --retries 1 --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" "$torch+cpu" ||
            fail "no index or folder had $torch+cpu; name one with TORCH_INDEX=URL or TORCH_WHEELS=FOLDER."
    fi
fi
echo "Installing $(grep -c == "$lock") pinned packages into $folder (a few minutes)."
if [ "$kind" = cpu ]; then grep -v '^torch==' "$lock"; else cat "$lock"; fi | pip install -q --no-deps -r /dev/stdin
pip install -q --no-deps --no-build-isolation -e "$here/.."
if [ "$kind" = gpu ]; then
    # Built against the torch that was just installed, which takes nvcc and up to an hour, unless a built wheel is given.
    pip install -q --no-deps --no-build-isolation "${FLASH_ATTN_WHEEL:-flash-attn==2.8.3}"
fi
"$folder/bin/python" - "$kind" <<'PY'
import sys, torch
built = "gpu" if torch.version.cuda else "cpu"
assert built == sys.argv[1], f"torch {torch.__version__} is not a build for {sys.argv[1]}; for cpu, set TORCH_INDEX or TORCH_WHEELS"
print(f"Ready: torch {torch.__version__}")
PY
