#!/bin/sh
# No two members of the static library share a name: "ar r" would replace one by the other, "ar x" would
# overwrite one with the other.   check_archive.sh OUT
set -u
archive=$1/libmlsys.a
members=$("${AR:-ar}" t "$archive") || exit 1
twice=$(echo "$members" | LC_ALL=C sort | uniq -d)
[ -z "$twice" ] || { echo "archive: $archive has several members named" $twice >&2; exit 1; }
echo "archive: $(echo "$members" | wc -l) members, no two of one name"
