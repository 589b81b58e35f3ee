"""The NumPy oracle of the test data: where it is, and its modules.

Tests that compare with it are skipped where MISSING says why:

    from oracle import MISSING, load, np
    decoder, make_tiny_model = load("decoder", "make_tiny_model")

    @unittest.skipIf(MISSING, MISSING)
"""

import importlib
import os
import sys

TESTDATA = os.environ.get("SLUICE_TESTDATA") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
ORACLE = os.path.join(TESTDATA, "oracle")
sys.path.insert(0, ORACLE)
try:
    import numpy as np
    import families  # noqa: F401  extends the tables of the oracle's decoder
    MISSING = ""
except ImportError as error:
    np = None
    MISSING = f"the oracle is not there: {error}"


def load(*names):
    """-> the oracle's modules of these names; None for each where it is missing."""
    return [None if MISSING else importlib.import_module(name) for name in names]
