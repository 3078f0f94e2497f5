#!/bin/sh
# Files have at most 500 lines, functions at most 60 (braces included). Exceptions, with a reason each,
# are in tools/size_exceptions.txt; one that is no longer needed is an error too.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.c' '*.h' '*.inc' '*.cu' '*.cuh' '*.cpp' '*.sh' '*.py' Makefile setup .ci/run |
    LC_ALL=C sort -u | while read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done | xargs awk '
BEGIN {
    while ((getline line < "tools/size_exceptions.txt") > 0)
        if (line !~ /^#/ && split(line, word, " ") > 1) allowed[word[1]] = 1
}
function report(what, text) {
    if (what in allowed) { used[what] = 1; return }
    print "sizes: " text; bad++
}
function end_file() {
    if (lines > 500) report(file, file ": " lines " lines, limit 500")
    files++
}
FNR == 1 { if (file) end_file(); file = FILENAME; inside = 0; c_like = file ~ /\.(c|h|inc|cu|cuh|cpp)$/ }
{ lines = FNR }
# clang-format puts the opening line of a function body at column 0 ending in "{", its end at "}".
c_like && !inside && /^[^ \t#\/}].*\{$|^\{$/ && !/=[ \t]*\{$/ && !/^(typedef |static |const )*(struct|enum|union) [a-z_A-Z0-9]* *\{$/ && !/^extern "C"/ && !/^(enum|struct|union) *\{$/ {
    inside = FNR; name = $0
    if (name ~ /^\{/) name = previous
    if (!match(name, /[A-Za-z_0-9]+\(/)) { name = previous_start; match(name, /[A-Za-z_0-9]+\(/) }
    name = RSTART ? substr(name, RSTART, RLENGTH - 1) : "?"
    if (name == "START_TEST") { match($0, /\([a-zA-Z_0-9]+/); name = substr($0, RSTART + 1, RLENGTH - 1) }
}
c_like && inside && /^\}/ {
    n = FNR - inside + 1
    functions++
    if (n > 60) report(file ":" name, file ":" inside ": " name " has " n " lines, limit 60")
    inside = 0
}
{ previous = $0; if ($0 ~ /^[A-Za-z_].*\(/) previous_start = $0 }
END {
    end_file()
    for (what in allowed) if (!(what in used)) { print "sizes: exception not needed: " what; bad++ }
    if (!bad) print "sizes: " files " files, " functions " functions"
    exit bad > 0
}'
