#!/bin/sh
# The output in docs/compiler.md is what examples/explain prints. UPDATE=1 writes the page anew instead.
set -eu
: "${OUT:=build/release}"
page=docs/compiler.md
made="$OUT/tests/compiler.md"
command -v "${MLSYS_CC:-cc}" >/dev/null || { echo "SKIP: the page has generated kernels: no C compiler"; exit 77; }

# Times differ from run to run, and only they.
level() {
    "$OUT/examples/explain" --fuse always --numerics exact --isa portable --threads 1 --level "$1" |
        sed -E 's/ +[0-9]+\.[0-9]{3} ms/        ... ms/'
}

# After the line <!-- explain: LEVEL --> stands the output, fenced.
inside=0
while IFS= read -r line; do
    case $inside$line in
    2'```') inside=0 ;;
    2*) ;;
    1'```'*)
        printf '%s\n' "$line"
        printf '%s\n```\n' "$(level "$name")"
        inside=2
        ;;
    0'<!-- explain: '*' -->')
        name=${line#<!-- explain: }
        name=${name% -->}
        printf '%s\n' "$line"
        inside=1
        ;;
    0*) printf '%s\n' "$line" ;;
    *) echo "check_compiler_page: no fence after the mark of $name" >&2; exit 1 ;;
    esac
done <"$page" >"$made"
[ $inside = 0 ] || { echo "check_compiler_page: the last fence is open" >&2; exit 1; }
if [ -n "${UPDATE:-}" ]; then
    cp "$made" "$page"
elif ! diff -u "$page" "$made"; then
    echo "docs/compiler.md is not what the compiler does: UPDATE=1 $0"
    exit 1
fi
grep -c '^<!-- explain: ' "$page" | sed 's/$/ levels of docs\/compiler.md are real/'
