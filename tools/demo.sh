#!/bin/sh
# Answer a question with a language model on this machine.   demo.sh GENERATE [MODEL [PROMPT]]
set -eu
here=$(dirname "$0")
generate=$1
model=${2:-}
prompt=${3:-What is photosynthesis? Answer in one sentence.}
if [ -n "$model" ]; then
    [ -f "$model" ] || { echo "demo: no such model file: $model" >&2; exit 1; }
    # The chat template is used when the file has one; a base model gets the bare text.
    chat=
    [ -z "${CHAT:-}" ] || chat=--chat
else
    model=$("$here/fetch-model.sh" smollm2)
    chat=--chat
fi
printf "> %s\n" "$prompt"
exec "$generate" --model "$model" --prompt "$prompt" $chat --max-tokens "${MAX_TOKENS:-160}"
