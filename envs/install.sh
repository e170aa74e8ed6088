#!/usr/bin/env bash
# An environment exactly as locked: install.sh cpu|gpu PYTHON FOLDER. Nothing is resolved, and what it needs of the machine is looked at
# before anything is made, so nothing can surprise.
set -euo pipefail
fail() { echo "install.sh: $*" >&2; exit 2; }
[ $# = 3 ] || fail "call it as install.sh cpu|gpu PYTHON FOLDER."
kind=$1 python=$2 folder=$3
here=$(cd "$(dirname "$0")" && pwd)
lock=$here/$kind.lock
[ -e "$lock" ] || fail "there is no environment '$kind'; it must be cpu or gpu."

# One folder, one kind. Where an older version of this file made it, its torch tells.
there=$(cat "$folder/kind" 2>/dev/null || true)
for file in "$folder"/lib/python3*/site-packages/torch/version.py; do
    if [ -z "$there" ] && [ -e "$file" ]; then there=$(grep -q '^cuda.*= None' "$file" && echo cpu || echo gpu); fi
done
[ "${there:-$kind}" = "$kind" ] ||
    fail "$folder holds the $there environment; give the $kind one a folder of its own, e.g. VENV=.venv-$kind, or remove $folder first."

[ ! -x "$folder/bin/python" ] || python=$folder/bin/python # of what is there already
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13) or sys.version_info.releaselevel != "final")' 2>/dev/null ||
    fail "'$python' is not a released Python 3.11 or 3.12; call make with PYTHON=/path/to/python3.11."
room() { # room FOLDER GIBIBYTES WHAT REMEDY: of the first of its parents that exists
    local where=$1
    while [ ! -d "$where" ]; do where=$(dirname "$where"); done
    local free; free=$(df -Pk "$where" | awk 'NR == 2 {print int($4 / 1048576)}')
    [ "$free" -ge "$2" ] || fail "$3 needs $2 GiB of disk and $free are free in $where; $4."
}
declare -A gigabytes=([cpu]=8 [gpu]=16)
held=0 # of one that is there already only the rest is needed
if [ -d "$folder" ]; then held=$(du -sk "$folder" | awk '{print int($1 / 1048576)}'); fi
needs=$((gigabytes[$kind] - held))
room "$folder" "$((needs > 3 ? needs : 3))" "the $kind environment" "free some, or name a folder elsewhere with VENV=FOLDER"
if [ "$kind" = gpu ]; then . "$here/gpu_checks.sh"; fi

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
echo "$kind" > "$folder/kind" # first of all, so that one that was interrupted is known too
rm -f "$folder/ready"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

# torch's CPU build lies in PyTorch's own index; plain registries serve a CUDA build under the same version. A registry
# configured on this machine (a mirror, a wheel folder) that has the CPU build comes first.
torch=$(grep '^torch==' "$lock")
if [ "$kind" = cpu ]; then
    if ! "$folder/bin/python" -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' 2>/dev/null; then
        pip install -q --no-deps --find-links "${TORCH_WHEELS:-$here}" "$torch+cpu" 2>/dev/null ||
            pip install -q --no-deps --retries 1 --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" "$torch+cpu" ||
            fail "no index or folder had $torch+cpu; name one with TORCH_INDEX=URL or TORCH_WHEELS=FOLDER."
    fi
fi
echo "Installing $(grep -c == "$lock") pinned packages into $folder (a few minutes)."
if [ "$kind" = cpu ]; then grep -v '^torch==' "$lock"; else cat "$lock"; fi | pip install -q --no-deps -r /dev/stdin
pip install -q --no-deps --no-build-isolation -e "$here/.."
if [ "$kind" = gpu ]; then . "$here/flash_attn.sh"; fi
"$folder/bin/python" - "$kind" <<'PY'
import sys, torch
built = "gpu" if torch.version.cuda else "cpu"
assert built == sys.argv[1], f"torch {torch.__version__} is not a build for {sys.argv[1]}; for cpu, set TORCH_INDEX or TORCH_WHEELS"
if built == "gpu":
    import flash_attn  # built for another torch, it can't be imported
print(f"Ready: torch {torch.__version__}")
PY
touch "$folder/ready"
