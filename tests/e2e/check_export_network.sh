#!/bin/sh
# The two Fashion-MNIST networks: trained, exported by examples/export, built without any library for this machine and, where compiler and
# emulator are installed, for ARM; the scores of test images have the library's bits.
set -eu
: "${OUT:=build/release}"
if [ ! -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    echo "SKIP: exported Fashion-MNIST networks: the data are not installed (Debian: dataset-fashion-mnist)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags="-std=c99 -O2 -ffreestanding -nostdlib -static -DMLSYS_OWN_MEMORY -Wall -Wextra -Werror"
fail() { echo "$*"; exit 1; }

# build_and_run NAME COMPILER EMULATOR
build_and_run() {
    if ! command -v "$2" >/dev/null || { [ -n "$3" ] && ! command -v "$3" >/dev/null; }; then
        echo "SKIP: exported $network for $1: no $2 or no ${3:-shell} (Debian: gcc-arm-linux-gnueabihf gcc-aarch64-linux-gnu qemu-user)"
        return
    fi
    # shellcheck disable=SC2086 # several flags, no emulator
    "$2" $flags -c "$folder/model.c" -o "$folder/model.o" &&
        "$2" $flags -I"$folder" tests/e2e/freestanding/main.c "$folder/model.o" -lgcc -o "$folder/model" ||
        fail "$network for $1 does not build"
    $3 "$folder/model" || fail "$network on $1: status $? (1: it failed, 2: other bits)"
    echo "$network on $1: the library's bits"
}

for network in mlp conv; do
    "$OUT/examples/train" --network $network --limit 1000 --epochs 1 --save "$folder/$network.safetensors" >"$folder/log" 2>&1 ||
        { cat "$folder/log"; fail "train failed"; }
    "$OUT/examples/export" --network $network --weights "$folder/$network.safetensors" --batch 3 --output "$folder/model.c" \
        --check "$folder/data.h" || fail "export failed"
    grep -E '^ \*   (arena|constants|steps)' "$folder/model.c"
    build_and_run host "${MLSYS_CC:-cc}" ""
    build_and_run arm arm-linux-gnueabihf-gcc qemu-arm
    build_and_run aarch64 aarch64-linux-gnu-gcc qemu-aarch64
done
