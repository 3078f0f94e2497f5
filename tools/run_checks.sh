#!/bin/sh
# Run tests and count them.   run_checks.sh OUT TEST...
# A TEST is a Check program (its own counts are used) or a script: exit 0 passed, 77 skipped, anything
# else failed. A line "SKIP: what: why" marks one test of a program as skipped. Fails if a test failed
# or if nothing ran.
set -u
out=$1
shift
logs=$out/test-logs
rm -rf "$logs"
mkdir -p "$logs"

cache=${MLSYS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mlsys}
for pair in "SMOLLM2 SmolLM2-135M-Instruct.Q4_1.gguf" "GEMMA3 gemma-3-270m-q4_k_m.gguf"; do
    file=$cache/${pair#* }
    [ -f "$file" ] && export "MLSYS_MODEL_${pair%% *}=$file"
done
# Sanitizers slow tests down; the thread sanitizer does not follow forks.
case ${CONFIG:-release} in
asan | ubsan | cov | debug) export CK_TIMEOUT_MULTIPLIER="${CK_TIMEOUT_MULTIPLIER:-6}" ;;
tsan) export CK_TIMEOUT_MULTIPLIER="${CK_TIMEOUT_MULTIPLIER:-15}" CK_FORK=no ;;
esac
# GCC's fake stack is not aligned for 64-byte vectors, so frames of AVX-512 kernels must stay on the real one.
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1:detect_stack_use_after_return=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# One program at a time on each core.
for t in "$@"; do printf '%s\n' "$t"; done |
    xargs -P "${JOBS:-$(nproc)}" -I {} sh -c '
        log=$1/$(printf %s "$2" | sed "s|^$3/||; s|/|.|g").log
        start=$(date +%s%N)
        timeout "${TEST_TIMEOUT:-900}" "$2" >"$log" 2>&1 </dev/null
        status=$?
        ms=$((($(date +%s%N) - start) / 1000000))
        printf "\nexit %d after %d ms\n" $status $ms >>"$log"
        [ $status = 0 ] && word=ok || word="exit $status"
        [ $status = 77 ] && word=skipped
        printf "  %-48s %6d ms  %s\n" "$2" $ms "$word"
    ' sh "$logs" {} "$out"

# Failures first, in full; then the skips by name; then the line that sums up.
awk -v ran="$#" '
    FNR == 1 { flush_file(); name = FILENAME; sub(/.*\//, "", name); sub(/\.log$/, "", name) }
    { text[++lines] = $0 }
    /^SKIP: / { skipped_here++; skips[++n_skips] = name ": " substr($0, 7) }
    /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
        split($0, part, /[:,] */); counted = 1
        checks += part[3]; bad += part[5] + part[7]
    }
    /^exit [0-9]+ after/ { status = $2 }
    function flush_file(   i) {
        if (!name) return
        if (!counted) {
            checks = 1; bad = status != 0 && status != 77
            if (status == 77 && !skipped_here) { skipped_here = 1; skips[++n_skips] = name }
            if (skipped_here > 1) skipped_here = 1
            if (bad) skipped_here = 0
        } else if (status != 0 && !bad) { bad = 1; checks++ }
        if (bad) {
            printf "\n==== %s\n", name
            for (i = lines > 80 ? lines - 80 : 1; i <= lines; i++) print text[i]
        }
        failed += bad; skipped += skipped_here; passed += checks - bad - skipped_here
        lines = counted = checks = bad = status = skipped_here = 0
    }
    END {
        flush_file()
        for (i = 1; i <= n_skips; i++) print "skipped: " skips[i]
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed || passed + skipped == 0
    }
' "$logs"/*.log
