#!/bin/sh
# Run the benches one after the other; each writes OUT/bench/NAME.json and a picture.   run_bench.sh OUT PROGRAM...
set -u
out=$1
shift
[ $# -gt 0 ] || { echo "bench: no bench/bench_*.c" >&2; exit 1; }
failed=0
for program in "$@"; do
    echo "== $(basename "$program")"
    "$program" --output "$out/bench" || failed=$((failed + 1))
done
echo "bench: $(($# - failed)) of $# finished; reports in $out/bench"
[ $failed = 0 ]
