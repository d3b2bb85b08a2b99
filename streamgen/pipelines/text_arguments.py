"""What a text pipeline is built with, settled or refused before anything is allocated."""

from collections.abc import Sequence
from typing import Any

from streamgen.asked import whole
from streamgen.errors import UsageError
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text_draft import refuse_other_vocabularies
from streamgen.sampling.tree_growth import check_widths


def settle_drafts(model: Any, draft: Any) -> list[LanguageModel]:
    """The draft models of a language model: none, one or several, of the same vocabulary."""
    drafts = list(draft) if isinstance(draft, Sequence) else [draft]
    wrong = [one for one in (model, *drafts) if not isinstance(one, LanguageModel)]
    if wrong:
        raise UsageError(
            f"A {type(wrong[0]).__name__} is no model that streams; give LanguageModel(model), or build the "
            "pipeline by from_pretrained()."
        )
    refuse_other_vocabularies(model.vocabulary, [one.vocabulary for one in drafts])
    return drafts


def settle_widths(widths: Any, vocabulary: int) -> tuple[int, ...]:
    """Children a depth of the trees that drafts propose."""
    if not isinstance(widths, Sequence) or isinstance(widths, str):
        raise UsageError(f"widths={widths!r:.60} grows no tree; give a list such as (3, 2, 1).")
    settled = [whole("width", width, "grows no tree") for width in widths]
    try:
        return check_widths(settled, vocabulary)
    except ValueError as error:  # of a rule that knows no users
        raise UsageError(str(error)) from error
