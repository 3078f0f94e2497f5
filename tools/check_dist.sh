#!/bin/sh
# The release archive is the same bytes twice, builds outside a repository, installs and serves a
# program that asks pkg-config.   check_dist.sh BUILD
set -eu
cd "$(dirname "$0")/.."
build=$(realpath -m "$1")
make -s dist BUILD="$build"
archive=$(echo "$build"/libmlsys-*.tar.gz)
first=$(sha256sum <"$archive")
sleep 1
make -s dist BUILD="$build"
[ "$first" = "$(sha256sum <"$archive")" ] || { echo "dist: two archives of one commit differ" >&2; exit 1; }

work=$build/dist-check
rm -rf "$work"
mkdir -p "$work/root"
tar xzf "$archive" -C "$work"
cd "$work"/libmlsys-*
make -s -j"$(nproc)" CUDA=0 BUILD=build PREFIX=/usr DESTDIR="$work/root" install
# Moved as a whole, the tree still describes itself: mlsys.pc is relative to its own place.
mv "$work/root" "$work/moved"
PKG_CONFIG_PATH=$work/moved/usr/lib/pkgconfig
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs mlsys)
# shellcheck disable=SC2086 # several words
${CC:-cc} -std=c11 examples/readme.c -o "$work/program" $flags
LD_LIBRARY_PATH=$work/moved/usr/lib "$work/program"
static=$(pkg-config --static --cflags --libs mlsys | sed 's/-lmlsys/-l:libmlsys.a/')
# shellcheck disable=SC2086
${CC:-cc} -std=c11 examples/readme.c -o "$work/program_static" $static
"$work/program_static"
make -s CUDA=0 BUILD=build PREFIX=/usr DESTDIR="$work/moved" uninstall
left=$(find "$work/moved" ! -type d)
[ -z "$left" ] || { echo "uninstall left: $left" >&2; exit 1; }
