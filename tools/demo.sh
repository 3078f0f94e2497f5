#!/bin/sh
# Answer a question with a language model on this machine.   demo.sh GENERATE [MODEL [PROMPT]]
set -eu
here=$(dirname "$0")
generate=$1
model=${2:-}
prompt=${3:-Why is the sky blue? Answer in two sentences.}
if [ -n "$model" ]; then
    [ -f "$model" ] || { echo "demo: no such model file: $model" >&2; exit 1; }
    # The chat template is used when the file has one; a base model gets the bare text.
    chat=
    [ -z "${CHAT:-}" ] || chat=--chat
else
    model=$("$here/fetch-model.sh" smollm2)
    chat=--chat
fi
exec "$generate" --model "$model" --prompt "$prompt" $chat --max-tokens "${MAX_TOKENS:-96}"
