#!/bin/sh
# Every op has all its rules (tools/check_ops.c), a row in tests/op_cases.h and a page in docs/ops/.
#   check_ops.sh OUT
set -u
cd "$(dirname "$0")/.." || exit 1
names=$1/ops.txt
status=0
"$1/tools/check_ops" >"$names" || status=1
# Control flow is tested by programs of its own: it has no single-op row.
controls='call if while custom'
while read -r op; do
    case " $controls " in
    *" $op "*) grep -rqw "\"$op\"" tests/conformance tests/unit || { echo "ops: $op: no test names it" >&2; status=1; } ;;
    *) cat tests/op_cases*.h 2>/dev/null | grep -qw "$op" || { echo "ops: $op: no row in tests/op_cases.h" >&2; status=1; } ;;
    esac
    [ -f "docs/ops/$op.md" ] || { echo "ops: $op: no docs/ops/$op.md: run make docs" >&2; status=1; }
done <"$names"
[ $status = 0 ] && echo "ops: $(wc -l <"$names") ops have all their rules, a test row and a page"
exit $status
