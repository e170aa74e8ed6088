# What the CUDA environment needs of a machine, before 11 GB are installed. Part of install.sh, whose `fail` and `room` it uses.
image="use the Apptainer image (envs/gpu.def)"
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; } # at_least WANTED FOUND

[ "$(uname -m)" = x86_64 ] || fail "envs/gpu.lock is for x86-64 and this machine is $(uname -m)."
# The newest tag among the wheels of gpu.lock, as `uv pip compile --format pylock.toml` lists them: llguidance's is manylinux_2_31, all
# others, torch's and vLLM's among them, are at most manylinux_2_28.
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{print $2}') || libc=
at_least 2.31 "${libc:-0}" || fail "the locked packages need glibc 2.31 or later and this machine has ${libc:-none}; $image, which brings its own."
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || driver=
if [[ $driver == [0-9]* ]]; then
    at_least 580 "$driver" || fail "CUDA 13 needs NVIDIA driver 580 or later and this machine has $driver; no environment or image brings one, so ask for an update."
else
    echo "No GPU is seen here; the nodes that use this environment need NVIDIA driver 580 or later."
fi
room "${TMPDIR:-/tmp}" 10 "pip, before it installs anything," "set TMPDIR to a folder with room"

# Compilers: for flash-attn below, and at run time for Triton's kernels.
cxx=${CXX:-g++}
found=$($cxx -dumpversion 2>/dev/null) || found=
at_least 9 "${found:-0}" || fail "compiling against torch takes g++ 9 or later and $cxx is ${found:-missing}; load a module that has it, use conda (envs/gpu.yaml), or $image."
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || fail "'$python' has no headers ($headers/Python.h); install its development package, use conda (envs/gpu.yaml), or $image."

# flash-attn belongs to the torch it was built against; one that is there already is kept until that changes, or another is asked for.
torch=$(grep '^torch==' "$lock")
flash_attn=build
if [ -n "${FLASH_ATTN_WHEEL:-}" ]; then
    flash_attn=wheel
    [[ $FLASH_ATTN_WHEEL == *://* || -e $FLASH_ATTN_WHEEL ]] || fail "there is no file FLASH_ATTN_WHEEL=$FLASH_ATTN_WHEEL."
elif [ -z "${FLASH_ATTN_CUDA_ARCHS:-}" ] && [ "$(cat "$folder/flash-attn" 2>/dev/null)" = "$torch" ]; then
    flash_attn=keep
fi
if [ "$flash_attn" = build ]; then
    archs=${FLASH_ATTN_CUDA_ARCHS:-} # its setup ignores those that it doesn't know
    [[ ${archs:-80} =~ ^(80|90|100|120)(\;(80|90|100|120))*$ ]] || fail "FLASH_ATTN_CUDA_ARCHS=$archs; it must be 80, 90, 100 or 120, or several with ; between them."
    here_is=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || here_is=
    [[ -n $archs || $here_is != [0-9]* || $here_is == 8.* ]] ||
        fail "the GPU here has compute capability $here_is, and flash-attn would be compiled for 8.0; name what it will run on with FLASH_ATTN_CUDA_ARCHS=80, 90, 100 or 120."
    # The toolkit that the compiler itself names: torch would take the folder above the command, which may be a wrapper or a link.
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc) cuda=${CUDA_HOME:-${CUDA_PATH:-}}
    [ -z "$cuda" ] || nvcc=$cuda/bin/nvcc
    release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p') || release=
    [[ $release == 13.* ]] || fail "compiling flash-attn takes nvcc of CUDA 13 and $nvcc is ${release:-missing}; load such a module, use conda (envs/gpu.yaml), $image, or give a built wheel with FLASH_ATTN_WHEEL=FILE."
    cuda=${cuda:-$("$nvcc" --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')}
    for headers in include targets/x86_64-linux/include none; do
        if [ -e "$cuda/$headers/cuda_runtime.h" ]; then break; fi
    done
    [ "$headers" != none ] || fail "compiling flash-attn takes the headers of CUDA and '$cuda' has no include/cuda_runtime.h; name a whole toolkit with CUDA_HOME=FOLDER."
    export CPATH=$cuda/$headers${CPATH:+:$CPATH} # conda's headers are where torch doesn't look
    if [ -x "$cuda/bin/nvcc" ]; then export CUDA_HOME=$cuda; fi
fi
