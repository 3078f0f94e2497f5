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
    gpt)
        "$program" --text README.md --layers 2 --width 32 --context 32 --steps 4 --batch 2 --sample 8 \
            --curve "$OUT/tests/gpt.svg" >"$OUT/tests/gpt.out" 2>&1 ||
            { echo "gpt failed:"; cat "$OUT/tests/gpt.out"; exit 1; }
        grep -q "4 steps" "$OUT/tests/gpt.out" && grep -q "</svg>" "$OUT/tests/gpt.svg" ||
            { echo "gpt: no steps or no curve"; cat "$OUT/tests/gpt.out"; exit 1; }
        gpt_run() {
            "$program" --text README.md --layers 1 --width 16 --heads 2 --context 16 --batch 2 --sample 0 "$@" \
                >"$OUT/tests/gpt.out" 2>&1 || { echo "gpt $* failed:"; cat "$OUT/tests/gpt.out"; exit 1; }
        }
        gpt_run --steps 4 --save "$OUT/tests/gpt.whole"
        gpt_run --steps 2 --save "$OUT/tests/gpt.half"
        gpt_run --steps 4 --resume "$OUT/tests/gpt.half" --save "$OUT/tests/gpt.again"
        cmp -s "$OUT/tests/gpt.whole" "$OUT/tests/gpt.again" ||
            { echo "gpt: a resumed run is not the whole one"; exit 1; }
        rm -f "$OUT/tests/gpt.whole" "$OUT/tests/gpt.half" "$OUT/tests/gpt.again"
        ;;
    finetune)
        "$program" --help >/dev/null
        if [ -n "${MLSYS_MODEL_SMOLLM2:-}" ]; then
            "$program" --model "$MLSYS_MODEL_SMOLLM2" --text README.md --lora 2 --steps 2 --length 16 --batch 1 \
                --sample 4 --output "$OUT/tests/tuned.gguf" >"$OUT/tests/finetune.out" 2>&1 ||
                { echo "finetune failed:"; cat "$OUT/tests/finetune.out"; exit 1; }
            "$OUT/examples/generate" --model "$OUT/tests/tuned.gguf" --prompt Hello --max-tokens 4 >/dev/null 2>&1 ||
                { echo "generate does not read what finetune wrote"; exit 1; }
            rm -f "$OUT/tests/tuned.gguf"
        else
            echo "SKIP: finetune of SmolLM2: no model file in the cache (tools/fetch-model.sh smollm2)"
        fi
        ;;
    explain)
        "$program" --help >/dev/null
        ! "$program" --level none >/dev/null 2>&1 || { echo "explain: an unknown level was accepted"; exit 1; }
        "$program" --fuse always --picture "$OUT/tests/graph.svg" --map "$OUT/tests/map.svg" >"$OUT/tests/explain.out" ||
            { echo "explain failed:"; cat "$OUT/tests/explain.out"; exit 1; }
        grep -q "</svg>" "$OUT/tests/graph.svg" && grep -q "</svg>" "$OUT/tests/map.svg" ||
            { echo "explain: no pictures"; exit 1; }
        printf 'mlsys-ir 1\nfunctions 1\nfunc 0 "main" {\n  %%0 = input "x" : f32[4]\n  %%1 = exp(%%0) : f32[4]\n  output "y" %%1\n}\n' \
            >"$OUT/tests/explain.ir"
        "$program" --program "$OUT/tests/explain.ir" --level kernels | grep -q exp ||
            { echo "explain: no step of the program"; exit 1; }
        if [ -n "${MLSYS_MODEL_SMOLLM2:-}" ]; then
            "$program" --model "$MLSYS_MODEL_SMOLLM2" --level fusion >"$OUT/tests/explain.out" ||
                { echo "explain failed on SmolLM2"; exit 1; }
            grep -q "kernels of several nodes" "$OUT/tests/explain.out" || { echo "explain: no report of SmolLM2"; exit 1; }
        else
            echo "SKIP: explain of SmolLM2: no model file in the cache (tools/fetch-model.sh smollm2)"
        fi
        ;;
    tune)
        "$program" --help >/dev/null
        records=$(mktemp -d)
        tune_run() {
            MLSYS_CACHE=$records "$program" --size B=8 --candidates 6 --budget-ms 20000 --threads 1 "$@" \
                >"$OUT/tests/tune.out" 2>&1 || { echo "tune failed:"; cat "$OUT/tests/tune.out"; exit 1; }
        }
        tune_run
        grep -q "1 kernels" "$OUT/tests/tune.out" || { echo "tune: no kernel:"; cat "$OUT/tests/tune.out"; exit 1; }
        tune_run --code
        grep -q " 0 candidates timed" "$OUT/tests/tune.out" && grep -q "int64_t mlsi_k" "$OUT/tests/tune.out" ||
            { echo "tune: a second run knows nothing, or no code:"; cat "$OUT/tests/tune.out"; exit 1; }
        rm -rf "$records"
        ;;
    export) # with real weights: check_export_network.sh
        "$program" --help >/dev/null
        ! "$program" --weights /nonexistent.safetensors 2>"$OUT/tests/export.err" ||
            { echo "export: a missing file of weights was accepted"; exit 1; }
        grep -q nonexistent "$OUT/tests/export.err" ||
            { echo "export: the error does not name the file:"; cat "$OUT/tests/export.err"; exit 1; }
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
