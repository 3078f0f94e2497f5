"""PyTorch for the peer tests that compare with it: this interpreter's, or that of the one which
$MLSYS_TORCH_PYTHON names. Nothing else needs it, so it is not among the requirements."""

import os
import sys


def need(what):
    """The module. Starts the script again under $MLSYS_TORCH_PYTHON where this interpreter lacks it; leaves
    with a named skip where there is none."""
    try:
        import torch
    except ImportError as error:
        other = os.environ.pop("MLSYS_TORCH_PYTHON", "")
        if other:
            os.execv(other, [other, *sys.argv])
        print(f"SKIP: {what}: {error}; MLSYS_TORCH_PYTHON may name an interpreter that has PyTorch")
        sys.exit(77)
    return torch
