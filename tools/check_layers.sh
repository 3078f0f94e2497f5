#!/bin/sh
# Who may include whom (docs/architecture.md). Each source lies in a room of src/; each include that
# resolves into src/ must go to a room that the includer's row lists.
set -eu
cd "$(dirname "$0")/.."
find src -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort | xargs awk '
BEGIN {
    ir = "core ir/graph ir/ops/op_def.h"
    may["core"]       = "core"
    may["ir/graph"]   = ir
    loop = "ir/loop/nest.h ir/loop/lower.h"
    may["ir/ops"]     = "core ir/graph ir/ops " loop
    may["ir/loop"]    = ir " ir/loop"
    may["ir/proof"]   = ir " ir/loop/nest.h ir/proof" # never passes or the lowering: it judges them
    may["ir/passes"]  = ir " ir/loop ir/proof ir/passes"
    may["ir/codegen"] = ir " ir/loop ir/codegen"
    may["autodiff"]   = ir " ir/loop autodiff"
    run = ir " ir/loop ir/proof ir/passes ir/codegen autodiff run"
    may["run"]        = run
    may["model"]      = run " model"
    may["train"]      = run " train ir/ops/decompose.h model/safetensors.h"
    may["quant"]      = run " quant"
    may["engine"]     = run " model train quant engine"
    may["api"]        = run " model train quant engine api cpu cuda"
    may["cpu"]        = "core cpu"
    may["cuda"]       = "core cuda"
}
function room_of(path,   parts, n) {
    sub(/^src\//, "", path)
    n = split(path, parts, "/")
    if (parts[1] == "ir" && n > 2) return "ir/" parts[2]
    return n > 1 ? parts[1] : ""
}
function exists(path,   line, r) { r = (getline line < path); close(path); return r >= 0 }
FNR == 1 {
    room = room_of(FILENAME)
    if (!(room in may)) { print "layers: " FILENAME ": no room named \"" room "\""; bad++ }
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\""); inc = q[2]; dir = FILENAME; sub(/[^\/]*$/, "", dir)
    target = exists(dir inc) ? dir inc : "src/" inc
    if (target ~ /\.\.\//) { print "layers: " FILENAME ":" FNR ": write the path from src/: " inc; bad++; next }
    if (!exists(target)) { if (inc !~ /^mlsys\//) { print "layers: " FILENAME ":" FNR ": not found: " inc; bad++ } next }
    n_includes++
    to = room_of(target); file = substr(target, 5)
    n = split(may[room], list, " ")
    for (i = 1; i <= n; i++) if (list[i] == to || list[i] == file) next
    print "layers: " FILENAME ":" FNR ": " room " may not include " file; bad++
}
/^[ \t]*#[ \t]*include[ \t]*<(cuda|nvrtc|cublas)/ && room != "cuda" {
    print "layers: " FILENAME ":" FNR ": CUDA headers belong in src/cuda"; bad++
}
END {
    if (bad) exit 1
    print "layers: " n_includes " includes follow the rules"
}'
