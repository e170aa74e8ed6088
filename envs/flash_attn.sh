# flash-attn for the torch that was just installed. Part of install.sh, after gpu_checks.sh has decided: build, wheel or keep.
# It must be this one: without it attention over packed micro-batches takes a dense mask of 16,384 x 16,384 tokens.
again=(--no-deps --force-reinstall --no-cache-dir) # pip's cache knows the version of flash-attn, not what it was built for
if [ "$flash_attn" = build ]; then
    # One architecture: A100's. Each takes as long again.
    export FLASH_ATTN_CUDA_ARCHS=${FLASH_ATTN_CUDA_ARCHS:-80}
    # A compiler of this needs up to 8 GiB. NVCC_THREADS are architectures at once, and add to that.
    jobs=$("$folder/bin/python" "$here/jobs.py" 8)
    export MAX_JOBS=${MAX_JOBS:-$jobs} NVCC_THREADS=${NVCC_THREADS:-1}
    # Otherwise its setup looks for a wheel on GitHub first, and what is installed would depend on the day.
    export FLASH_ATTENTION_FORCE_BUILD=TRUE
    echo "Compiling flash-attn 2.8.3 for architecture $FLASH_ATTN_CUDA_ARCHS, $MAX_JOBS files at once (an hour or so)."
    pip install -q "${again[@]}" --no-build-isolation flash-attn==2.8.3
elif [ "$flash_attn" = wheel ]; then
    pip install -q "${again[@]}" "$FLASH_ATTN_WHEEL"
fi
echo "$torch" > "$folder/flash-attn"
