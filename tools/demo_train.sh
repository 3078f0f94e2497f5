#!/bin/sh
# Train on Fashion-MNIST: installs the data and the program's library when they are missing.
#   demo_train.sh PROGRAM [ARGUMENTS...]
set -eu
program=$1
shift
data=/usr/share/datasets/fashion-mnist
missing=
[ -f "$data/train-images-idx3-ubyte.gz" ] || missing="$missing dataset-fashion-mnist"
pkg-config --exists zlib || missing="$missing zlib1g-dev"
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || { echo "demo-train: missing:$missing (Debian's names)" >&2; exit 1; }
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    echo "demo-train: installing$missing"
    # shellcheck disable=SC2086 # several packages
    { $as_root apt-get -qq update && $as_root apt-get -qq install -y --no-install-recommends $missing; } >/dev/null 2>&1 ||
        { echo "demo-train: apt-get could not install:$missing" >&2; exit 1; }
fi
"${MAKE:-make}" -s "$program"
exec "$program" "$@"
