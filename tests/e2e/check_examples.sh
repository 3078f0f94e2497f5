#!/bin/sh
# Every example runs and reports success; generate answers with the real model when the cache has it.
set -eu
: "${OUT:=build/release}"
count=0
for program in "$OUT"/examples/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    count=$((count + 1))
    name=$(basename "$program")
    case $name in
    *.d) continue ;;
    generate)
        "$program" --help >/dev/null
        ! "$program" --model /nonexistent.gguf --prompt x 2>"$OUT/tests/generate.err" ||
            { echo "generate: a missing model file was accepted"; exit 1; }
        grep -q nonexistent "$OUT/tests/generate.err" ||
            { echo "generate: the error does not name the file:"; cat "$OUT/tests/generate.err"; exit 1; }
        if [ -n "${MLSYS_MODEL_SMOLLM2:-}" ]; then
            "$program" --model "$MLSYS_MODEL_SMOLLM2" --chat --max-tokens 24 \
                --prompt "What is the capital of France? Answer in one sentence." >"$OUT/tests/generate.out" 2>&1
            grep -q Paris "$OUT/tests/generate.out" ||
                { echo "generate: no Paris in:"; cat "$OUT/tests/generate.out"; exit 1; }
        else
            echo "SKIP: generate with SmolLM2: no model file in the cache (tools/fetch-model.sh smollm2)"
        fi
        ;;
    train)
        "$program" --help >/dev/null
        ! "$program" --data /nonexistent 2>"$OUT/tests/train.err" ||
            { echo "train: a missing folder was accepted"; exit 1; }
        grep -q nonexistent "$OUT/tests/train.err" ||
            { echo "train: the error does not name the file:"; cat "$OUT/tests/train.err"; exit 1; }
        if [ -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
            "$program" --limit 2000 --epochs 1 >"$OUT/tests/train.out" 2>&1 ||
                { echo "train failed:"; cat "$OUT/tests/train.out"; exit 1; }
        else
            echo "SKIP: train on Fashion-MNIST: the data are not installed (Debian: dataset-fashion-mnist)"
        fi
        ;;
    *) "$program" >"$OUT/tests/$name.out" || { echo "$name failed:"; cat "$OUT/tests/$name.out"; exit 1; } ;;
    esac
done
echo "$count examples ran"
[ "$count" -gt 0 ]
