#!/bin/sh
# Write the version script and the committed symbol list from the public header.
#   gen_symbols.sh            writes src/libmlsys.map and docs/abi/symbols.txt
#   gen_symbols.sh --check    fails when they are not what it would write
# A node is named after the ABI step that added its symbols; before 1.0 there is one.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Declarations carry MLSYS_API; a comment or a type never does.
tr '\n' ' ' <include/mlsys/mlsys.h | sed 's/MLSYS_API/\n&/g' |
    sed -n 's/^MLSYS_API [^(]*[ *]\(mlsys_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort >"$tmp/symbols.txt"
node=$(sed -n 's/^#define MLSYS_VERSION_STRING "\([0-9]*\.[0-9]*\).*/\1/p' include/mlsys/mlsys.h)
{
    printf '/* Written by tools/gen_symbols.sh from the public header. */\nMLSYS_%s {\n  global:\n' "$node"
    sed 's/.*/    &;/' "$tmp/symbols.txt"
    printf '  local: *;\n};\n'
} >"$tmp/libmlsys.map"

duplicate=$(uniq -d "$tmp/symbols.txt")
[ -z "$duplicate" ] || { echo "symbols: declared twice: $duplicate" >&2; exit 1; }
if [ "${1:-}" = --check ]; then
    status=0
    cmp -s "$tmp/libmlsys.map" src/libmlsys.map || status=1
    cmp -s "$tmp/symbols.txt" docs/abi/symbols.txt || status=1
    [ $status = 0 ] || echo "symbols: src/libmlsys.map or docs/abi/symbols.txt is not up to date: run tools/gen_symbols.sh" >&2
    exit $status
fi
mkdir -p docs/abi
cp "$tmp/symbols.txt" docs/abi/symbols.txt
cp "$tmp/libmlsys.map" src/libmlsys.map
