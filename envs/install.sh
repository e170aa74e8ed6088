#!/usr/bin/env bash
# The CPU environment, exactly as locked: install.sh PYTHON FOLDER. Nothing is resolved, so nothing can surprise.
set -euo pipefail
python=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null ||
    { echo "install.sh: '$python' is not Python 3.11 or 3.12; call make with PYTHON=/path/to/python3.11." >&2; exit 2; }
free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
[ "$free" -ge 8 ] || { echo "install.sh: the environment needs 8 GiB of disk, $free are free here." >&2; exit 2; }

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }

# torch's CPU build lies in PyTorch's own index; plain registries serve a CUDA build under the same version. A registry
# configured on this machine (a mirror, a wheel folder) that has the CPU build comes first.
torch=$(grep '^torch==' "$here/cpu.lock")
if ! "$folder/bin/python" -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' 2>/dev/null; then
    pip install -q --no-deps --find-links "${TORCH_WHEELS:-$here}" "$torch+cpu" 2>/dev/null ||
        pip install -q --no-deps --retries 1 --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" "$torch+cpu" ||
        { echo "install.sh: no index or folder had $torch+cpu; name one with TORCH_INDEX=URL or TORCH_WHEELS=FOLDER." >&2; exit 2; }
fi
echo "Installing $(grep -c == "$here/cpu.lock") pinned packages into $folder (a few minutes)."
grep -v '^torch==' "$here/cpu.lock" | pip install -q --no-deps -r /dev/stdin
pip install -q --no-deps --no-build-isolation -e "$here/.."
"$folder/bin/python" - <<'PY'
import torch
assert torch.version.cuda is None, f"a CUDA build of torch ({torch.__version__}) was installed; set TORCH_INDEX or TORCH_WHEELS"
print(f"Ready: torch {torch.__version__}")
PY
