#!/bin/sh
# The public header alone, under each language that users compile it in; then two C units and a C++
# program linked with the library.
set -eu
: "${OUT:=build/release}" "${CC:=cc}"
work=$OUT/tests/abi
mkdir -p "$work"
strict='-Wall -Wextra -Werror -pedantic-errors -Iinclude'
link="-L$OUT -lmlsys -Wl,-rpath,$(realpath "$OUT")"
case ${CONFIG:-release} in
asan) link="$link -fsanitize=address" ;;
ubsan) link="$link -fsanitize=undefined" ;;
tsan) link="$link -fsanitize=thread" ;;
cov) link="$link --coverage" ;;
esac
for compiler in "$CC" gcc clang; do
    command -v "$compiler" >/dev/null || continue
    for std in c99 c11 c17; do
        echo '#include <mlsys/mlsys.h>' | "$compiler" -std=$std $strict -x c -fsyntax-only -
    done
done
"$CC" -std=c99 $strict tests/abi/unit_a.c tests/abi/unit_b.c -o "$work/two_units" $link
"$work/two_units" >"$work/struct_sizes"

cxx=${CXX:-c++}
command -v "$cxx" >/dev/null || { echo "SKIP: the header as C++ and program.cpp: no C++ compiler"; exit 0; }
for compiler in "$cxx" clang++; do
    command -v "$compiler" >/dev/null || continue
    for std in c++11 c++17 c++20; do
        echo '#include <mlsys/mlsys.h>' | "$compiler" -std=$std $strict -x c++ -fsyntax-only -
    done
done
"$cxx" -std=c++17 $strict tests/abi/program.cpp -o "$work/program_cpp" $link
"$work/program_cpp"
