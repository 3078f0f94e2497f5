#!/bin/sh
# Relative links in Markdown files lead to files; paths in backticks that look like the tree's exist.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
git ls-files -co --exclude-standard '*.md' | LC_ALL=C sort >"$list"
while read -r doc; do
    dir=$(dirname "$doc")
    for target in $(grep -o ']([^)# ]*' "$doc" | cut -c3- | grep -v '^[a-z]*:' | sort -u); do
        [ -e "$dir/$target" ] || { echo "docs: $doc: link leads nowhere: $target" >&2; status=1; }
    done
    for path in $(grep -oE '`(src|include|tests|tools|examples|bench|docs)/[A-Za-z0-9_./-]*`' "$doc" | tr -d '`' | sort -u); do
        [ -e "$path" ] || { echo "docs: $doc: no such file in the tree: $path" >&2; status=1; }
    done
done <"$list"
# Every page of docs/ has one row in its table of contents.
for page in docs/*.md; do
    page=${page#docs/}
    [ "$page" = README.md ] && continue
    rows=$(grep -c "^| \[$page\]($page) |" docs/README.md)
    [ "$rows" = 1 ] || { echo "docs: docs/README.md has $rows rows for $page, not one" >&2; status=1; }
done
# The program of the README is the one that is compiled and run.
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' | cmp -s - examples/readme.c ||
    { echo "docs: the program in README.md is not examples/readme.c" >&2; status=1; }
[ $status = 0 ] && echo "docs: links and paths of $(wc -l <"$list") pages resolve"
exit $status
