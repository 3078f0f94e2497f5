#!/bin/sh
# Plant every fault of src/core/fault_list*.h and demand that the suite named for it fails.
# Usage: tests/faults.sh [NAME...]        environment: MAKE, BUILD, JOBS (2), CFLAGS
set -eu
cd "$(dirname "$0")/.."
make=${MAKE:-make} build=${BUILD:-build-faults} jobs=${JOBS:-2}
export BUILD="$build" CONFIG=release
out=$build/release
mkdir -p "$build"

# Rows as "NAME suite"; a row may span lines.
rows=$(cat src/core/fault_list.h src/core/fault_list_compiler.h | tr '\n' ' ' | sed 's,( \+,(,g;s,/\*[^*]*\(\*[^/][^*]*\)*\*/,,g' |
    grep -o 'MLSI_FAULT_ROW([A-Z0-9_]*, *"[^"]*", *"[^"]*"' |
    sed 's/MLSI_FAULT_ROW(\([A-Z0-9_]*\), *"[^"]*", *"\([^"]*\)"/\1 \2/')
[ -n "$rows" ] || { echo "faults: no rows found" >&2; exit 2; }

wanted=" $* "
suites=$(echo "$rows" | while read -r name suite; do
    case "$wanted" in "  "|*" $name "*) echo "$suite";; esac; done | sort -u)
for suite in $suites; do
    "$make" -j"$jobs" BUILD="$build" CONFIG=release CFLAGS="${CFLAGS:-} -DMLSI_FAULTS=1" \
        "$out/tests/$suite" > "$build/make.log" 2>&1 || { tail -20 "$build/make.log" >&2; exit 2; }
done

# shellcheck disable=SC2016  # the inner shells expand
# A suite that fails by itself would catch everything.
for suite in $suites; do echo "$suite"; done | xargs -P "$jobs" -I{} sh -c '
    MLSI_FAULT= timeout 600 "$0/tests/{}" > /dev/null 2>&1 || { echo "faults: {} fails without any fault" >&2; exit 255; }' "$out" || exit 2

# shellcheck disable=SC2016
echo "$rows" | while read -r name suite; do
    case "$wanted" in "  "|*" $name "*) echo "$name $suite";; esac; done |
    xargs -P "$jobs" -L1 sh -c '
        if MLSI_FAULT=$1 timeout 600 "$0/tests/$2" > /dev/null 2>&1; then echo "MISSED $1 by $2"
        else echo "caught $1 by $2"; fi' "$out" | tee "$build/faults.log"
caught=$(grep -c '^caught' "$build/faults.log" || true) missed=$(grep -c '^MISSED' "$build/faults.log" || true)
echo "faults: $caught caught, $missed missed"
[ "$missed" -eq 0 ]
