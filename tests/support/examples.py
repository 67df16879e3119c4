"""How many examples a property is tried on: few by default, as many as one likes for a long look."""

import os

_FACTOR = int(os.environ.get("DRAGOMAN_TEST_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """Multiply by the environment variable `DRAGOMAN_TEST_EXAMPLES`."""
    return usual * _FACTOR
