#!/bin/sh
# Compare with independent implementations.   check_peer.sh OUT PROGRAM...
# Obtains both pinned models and a Python environment (tests/peer/requirements.txt), unpacks the peers'
# test data when it lies beside the checkout, then runs tests/peer/check_*.py and the programs given.
set -eu
out=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
cache=${MLSYS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mlsys}

for model in smollm2 gemma3; do tools/fetch-model.sh $model >/dev/null; done
MLSYS_SUITES=$(tools/unpack_suites.sh "$out")
export MLSYS_SUITES
export MLSYS_LIBRARY="$out/libmlsys.so"

# The environment is kept, and made anew when its requirements change.
requirements=tests/peer/requirements.txt
if [ -f $requirements ]; then
    venv=$cache/peer-$(sha256sum $requirements | cut -c1-12)
    if [ ! -f "$venv/ready" ]; then
        rm -rf "$venv"
        "${PYTHON:-python3}" -m venv "$venv" ||
            { echo "check-peer: needs python3 with venv (Debian: python3-venv)" >&2; exit 1; }
        "$venv/bin/pip" install -q --disable-pip-version-check -r $requirements ||
            { rm -rf "$venv"; echo "check-peer: pip could not install $requirements" >&2; exit 1; }
        touch "$venv/ready"
    fi
    PATH=$venv/bin:$PATH
    export PATH
fi
MLSYS_NUMPY_DATA=${MLSYS_NUMPY_DATA:-$(python3 -c 'import numpy, os; print(os.path.dirname(numpy.__file__))' 2>/dev/null || true)/_core/tests/data}
export MLSYS_NUMPY_DATA
scripts=$(find tests/peer -name 'check_*.py' -perm -u+x | LC_ALL=C sort)
# shellcheck disable=SC2086 # one word a script
TEST_TIMEOUT=${TEST_TIMEOUT:-3600} exec tools/run_checks.sh "$out/peer" "$@" $scripts
