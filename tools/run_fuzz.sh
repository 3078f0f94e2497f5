#!/bin/sh
# Run each libFuzzer target for some seconds, from its committed corpus.   run_fuzz.sh OUT SECONDS SOURCE...
# New inputs go to OUT/corpus/NAME; a finding is kept in OUT/findings and fails the run.
set -u
out=$1 seconds=$2
shift 2
[ $# -gt 0 ] || { echo "fuzz: no tests/fuzz/fuzz_*.c" >&2; exit 1; }
mkdir -p "$out/findings"
failed=0
for source in "$@"; do
    name=$(basename "$source" .c)
    corpus=tests/fuzz/corpus/${name#fuzz_}
    mkdir -p "$out/corpus/$name"
    [ -d "$corpus" ] || corpus=
    echo "fuzz: $name for $seconds s"
    # shellcheck disable=SC2086 # an absent corpus is no argument
    "$out/tests/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
        -artifact_prefix="$out/findings/$name-" "$out/corpus/$name" $corpus >"$out/$name.log" 2>&1 || {
        failed=$((failed + 1))
        grep -m1 -A12 -E 'ERROR|runtime error' "$out/$name.log" || tail -n 20 "$out/$name.log"
    }
    grep -E 'number_of_executed_units|peak_rss_mb' "$out/$name.log"
done
echo "$(($# - failed)) passed, $failed failed"
[ $failed = 0 ]
