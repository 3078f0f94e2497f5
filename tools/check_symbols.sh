#!/bin/sh
# The exported symbols of the built library equal the header, the version script and the committed
# list; it needs nothing but libc, libm and the optional parts; it stays small.   check_symbols.sh OUT
set -u
cd "$(dirname "$0")/.." || exit 1
lib=$1/libmlsys.so
status=0
tools/gen_symbols.sh --check || status=1

exported=$(mktemp)
trap 'rm -f "$exported"' EXIT
# The node name itself is an absolute symbol (A).
${NM:-nm} -D --defined-only "$lib" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$exported"
if ! difference=$(diff docs/abi/symbols.txt "$exported"); then
    echo "symbols: the list (<) and $lib (>) differ:" >&2
    echo "$difference" | grep '^[<>]' >&2
    status=1
fi

needed=$(objdump -p "$lib" | awk '$1 == "NEEDED" { print $2 }')
case ${CONFIG:-release} in
asan | ubsan | tsan | fuzz) sanitizer='|lib[atu]b*san\.so.*|libgcc_s\.so.*' ;;
*) sanitizer= ;;
esac
for n in $needed; do
    echo "$n" | grep -qE "^(libc\.so\.6|libm\.so\.6|ld-linux[-a-z0-9_.]*|libpcre2-8\.so\.0|libutf8proc\.so\.[0-9]+|libjansson\.so\.[0-9]+|libz\.so\.1$sanitizer)\$" ||
        { echo "symbols: $lib needs $n" >&2; status=1; }
done

limit=5000000
loaded=$(size -A "$lib" | awk '$1 ~ /^\.(text|rodata|data|eh_frame)/ { n += $2 } END { print n + 0 }')
if [ "${CONFIG:-release}" = release ] && [ "$loaded" -ge $limit ]; then
    echo "symbols: $lib is $loaded bytes of code and data, limit $limit" >&2
    status=1
fi
[ $status = 0 ] && echo "symbols: $(wc -l <"$exported") exported, needs" $needed ", $loaded bytes of code and data"
exit $status
