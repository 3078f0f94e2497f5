#!/bin/sh
# Programs on a CUDA device that is not there: tests/fake_cuda runs kernels that the host's C++ compiler makes of their CUDA C. A tiny language
# model, rows of the op table and training give the bits of the CPU.
set -eu
: "${OUT:=build/release}"
command -v "${CXX:-c++}" >/dev/null || { echo "SKIP: CUDA programs on the host: no C++ compiler"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "SKIP: CUDA programs on the host: their fibers are of x86-64"; exit 77; }
case ${CONFIG:-release} in
asan | tsan) echo "SKIP: CUDA programs on the host: sanitizers do not know their fibers"; exit 77 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fake=$(realpath "$OUT/tests/libfakecuda.so")
export FAKE_CUDA_RUN=1 MLSYS_CUDA_DRIVER="$fake" MLSYS_NVRTC="$fake" MLSYS_CACHE="$folder/cache"
export MLSYS_TEST_DEVICE=cuda CK_FORK=no
mkdir "$MLSYS_CACHE"
unset MLSYS_MODEL_SMOLLM2

# quietly NAME COMMAND...: its output is seen when it fails.
quietly() {
    name=$1
    shift
    "$@" >"$folder/$name.log" 2>&1 || { cat "$folder/$name.log"; echo "check_cuda_road: $name failed"; return 1; }
}

# rows OPS VARIANTS PART: VARIANTS types of every row of these ops whose number is PART.
rows() {
    MLSYS_TEST_OP=$1 MLSYS_TEST_VARIANTS=$2 MLSYS_TEST_PART=$3 quietly "rows-${1%%,*}" "$OUT/tests/conformance/check_programs" || return 1
    for op in $(echo "$1" | tr , ' '); do
        grep -q "^$op(" "$folder/rows-${1%%,*}.log" || { echo "check_cuda_road: no row of $op"; return 1; }
    done
    count=$(grep -c ': seed ' "$folder/rows-${1%%,*}.log")
    echo "$count rows of $1: the reference's bits"
}

# train_on DEVICE: three exact steps.
train_on() {
    quietly "train-$1" "$OUT/examples/gpt" --device "$1" --numerics exact --text docs/cuda.md --layers 1 --heads 2 --width 16 --context 16 \
        --batch 2 --steps 3 --sample 0 --save "$folder/$1.safetensors" || return 1
    sha256sum <"$folder/$1.safetensors" >"$folder/$1.hash"
}

first_half() {
    quietly exact-bits "$OUT/tests/e2e/check_exact_bits" || return 1
    ! grep -i 'SKIP.*CUDA' "$folder/exact-bits.log" || return 1
    echo "a tiny model: one SHA-256 of its logits"
    train_on cpu && train_on cuda || return 1
    cmp "$folder/cpu.hash" "$folder/cuda.hash" || { echo "check_cuda_road: another state after training"; return 1; }
    echo "a GPT after 3 steps: $(cut -c1-12 "$folder/cpu.hash")"
    rows dynamic_update_slice,reduce_sum,argmax,sort 1 0/2
}

first_half &
half=$!
status=0
{ rows attention 1 0/1 && rows quant_matmul 8 1/2 && rows dot_general 1 0/3 && rows scatter,conv,pool 1 1/8; } || status=1
wait $half || status=1
exit $status
