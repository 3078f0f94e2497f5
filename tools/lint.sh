#!/bin/sh
# All static checks; every one runs, the first failure decides the exit status.   lint.sh OUT
set -u
cd "$(dirname "$0")/.." || exit 1
out=$1
status=0
step() { "$@" || status=1; }

step tools/check_layers.sh
step tools/check_sizes.sh
step tools/check_symbols.sh "$out"
step tools/check_archive.sh "$out"
step tools/check_ops.sh "$out"
step "$out/tools/gen_op_docs" docs/ops --check
step tools/check_docs.sh
if command -v "${PYTHON:-python3}" >/dev/null; then
    step "${PYTHON:-python3}" tools/gen_bindings.py --check
else
    echo "lint: skipped generated bindings: no Python"
fi
if command -v cppcheck >/dev/null; then
    mkdir -p "$out/cppcheck"
    step cppcheck -q -j"$(nproc)" --cppcheck-build-dir="$out/cppcheck" --std=c11 --enable=warning,portability \
        --inline-suppr --suppressions-list=tools/cppcheck_suppressions.txt --error-exitcode=1 \
        -Iinclude -Isrc -DMLSI_ISA_IS_PORTABLE=1 -D__GNUC__ src
else
    echo "lint: skipped static analysis: no cppcheck"
fi
if command -v shellcheck >/dev/null; then
    step shellcheck -s sh -S warning setup tools/*.sh
fi
exit $status
