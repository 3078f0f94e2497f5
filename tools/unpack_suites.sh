#!/bin/sh
# Unpack the peers' test data into OUT/suites and print that folder; print nothing when there is none.
#   unpack_suites.sh OUT      The archives are looked for in $SUITES, default ../shared/suites.
set -eu
cd "$(dirname "$0")/.."
from=${SUITES:-../shared/suites}
to=$(realpath -m "$1")/suites
[ -d "$from" ] || exit 0
mkdir -p "$to"
for archive in "$from"/*.tar.xz; do
    mark=$to/.$(basename "$archive").done
    [ -n "$(find "$mark" -newer "$archive" 2>/dev/null)" ] || { tar xJf "$archive" -C "$to" && touch "$mark"; }
done
printf '%s\n' "$to"
