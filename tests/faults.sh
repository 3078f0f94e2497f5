#!/bin/sh
# Plant every fault of src/core/fault_list*.h and demand that the suite named for it fails.
# Usage: tests/faults.sh [NAME...]        environment: MAKE, BUILD, JOBS, CFLAGS
set -eu
cd "$(dirname "$0")/.."
make=${MAKE:-make} build=${BUILD:-build-faults} jobs=${JOBS:-2}
export BUILD="$build" CONFIG=release
out=$build/release
mkdir -p "$build"

# Rows as "NAME suite"; a row may span lines.
rows=$(cat src/core/fault_list.h src/core/fault_list_compiler.h | tr '\n' ' ' | sed 's,/\*[^*]*\(\*[^/][^*]*\)*\*/,,g' |
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

# A suite that fails by itself would catch everything.
for suite in $suites; do
    if ! MLSI_FAULT='' timeout 300 "$out/tests/$suite" > /dev/null 2>&1; then
        echo "faults: $suite fails without any fault" >&2
        exit 2
    fi
done

caught=0 missed=0
while read -r name suite; do
    case "$wanted" in "  "|*" $name "*) ;; *) continue;; esac
    if MLSI_FAULT=$name timeout 300 "$out/tests/$suite" > /dev/null 2>&1; then
        echo "MISSED $name by $suite"
        missed=$((missed + 1))
    else
        echo "caught $name by $suite"
        caught=$((caught + 1))
    fi
done <<ROWS
$rows
ROWS
echo "faults: $caught caught, $missed missed"
[ "$missed" -eq 0 ]
