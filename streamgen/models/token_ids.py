"""Token ids that a caller gives, settled as a list or refused in a sentence."""

import operator
from typing import Any

from streamgen.errors import UsageError


def token_ids(given: Any, vocabulary: int) -> list[int]:
    """Whole numbers from 0 to below `vocabulary`; arrays and tensors count as lists."""
    listed = given.tolist() if hasattr(given, "tolist") else given
    try:
        if isinstance(listed, (str, bytes)):
            raise TypeError("characters are no token ids")
        ids = [operator.index(token) for token in listed]
    except TypeError as error:
        raise UsageError(
            f"{given!r:.60} is no list of token ids; give a text, or token ids, which are whole numbers."
        ) from error
    wrong = [token for token in ids if not 0 <= token < vocabulary]
    if wrong:
        raise UsageError(f"Token {wrong[0]} is unknown; this model knows 0 to {vocabulary - 1}.")
    return ids
