#!/bin/sh
# Run the benches one after the other; each writes OUT/bench/NAME.json and a picture.
#   run_bench.sh OUT "OPTION..." PROGRAM...
set -u
out=$1
options=$2
shift 2
[ $# -gt 0 ] || { echo "bench: no bench/bench_*.c" >&2; exit 1; }
cache=${MLSYS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mlsys}
for pair in "SMOLLM2 SmolLM2-135M-Instruct.Q4_1.gguf" "GEMMA3 gemma-3-270m-q4_k_m.gguf"; do
    file=$cache/${pair#* }
    [ -f "$file" ] && export "MLSYS_MODEL_${pair%% *}=$file"
done
unset OPENBLAS_CORETYPE # where it is preset it names an older processor, and the peer would be slowed
failed=0
for program in "$@"; do
    echo "== $(basename "$program")"
    # shellcheck disable=SC2086 # options are words
    "$program" --output "$out/bench" $options || failed=$((failed + 1))
done
echo "bench: $(($# - failed)) of $# finished; reports in $out/bench"
[ $failed = 0 ]
