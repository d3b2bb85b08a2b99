"""A kernel that answers wrongly is refused by name; so is one that answers nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from streamgen.attention import Attend, KernelError, Need, check, checked, describe_kernels, kernels, report
from streamgen.attention.check import verify
from streamgen.attention.contract import MASKS, MaskKind, Staged
from streamgen.attention.kernels.sdpa import Sdpa
from streamgen.attention.report import typical_need
from streamgen.attention.trial import trial_batch
from streamgen.kv import Causal
from streamgen.kv.view import TableKV, View

NEED = replace(typical_need("cpu"), head_dim=16)
quiet = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@dataclass(frozen=True)
class Spoilt(Sdpa):
    """A kernel whose answers go through something that should not be there."""

    name: str = "spoilt"
    spoil: Callable[[Tensor], Tensor] = torch.zeros_like

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return [_Spoilt(attend, self.spoil) for attend in super().plan(stages, q_heads)]


@dataclass(frozen=True)
class _Spoilt:
    attend: Attend
    spoil: Callable[[Tensor], Tensor]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.spoil(self.attend(q, k, v))

    def store(self, k: Tensor, v: Tensor) -> None: ...


def late_nan(out: Tensor) -> Tensor:
    out[-1, -1, -1, -1] = float("nan")
    return out


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (torch.zeros_like, "one constant, a black picture"),
        (late_nan, "NaN or infinity"),
        (torch.randn_like, r"is off by .* where 2e-03 is allowed"),
        (lambda out: out.flip(2), "is off by"),
        (lambda out: out.roll(1, dims=1), "is off by"),
        (lambda out: out * 1.01, "is off by"),
        (lambda out: out[:, :-1], "answers in shape"),
    ],
)
def test_a_broken_kernel_is_refused_by_name(spoil: Callable[[Tensor], Tensor], sentence: str) -> None:
    with pytest.raises(KernelError, match=f"The kernel 'spoilt' .*{sentence}.*it is refused. Choose 'sdpa'"):
        verify(Spoilt(spoil=spoil), NEED)


def shifted(view: View, by: int) -> View:
    return View(view.visible, view.past - by, view.tokens + by, view.page_size, view.device)


@dataclass(frozen=True)
class Narrow(Sdpa):
    """A kernel that takes the window to be one key wider or narrower than it is."""

    name: str = "narrow"
    by: int = 1

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return super().plan([_Narrow(stage, self.by) for stage in stages], q_heads)


@dataclass(frozen=True)
class _Narrow:
    stage: Staged
    by: int

    @property
    def tokens(self) -> int:
        return self.stage.tokens

    @property
    def mask(self) -> Causal:
        assert isinstance(self.stage.mask, Causal) and self.stage.mask.window is not None
        return replace(self.stage.mask, window=self.stage.mask.window + self.by)

    @property
    def tables(self) -> Sequence[TableKV]:
        return self.stage.tables


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("mask", ["window", "sink"])
def test_a_window_that_is_off_by_one_key_is_noticed(mask: MaskKind, by: int, dtype: torch.dtype) -> None:
    with pytest.raises(KernelError, match="'narrow' is off by"):
        verify(Narrow(by=by), replace(NEED, mask=mask, dtype=dtype))


@quiet
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["reference", "sdpa", "segments", "cascade", "flex"])
def test_a_sound_kernel_passes_however_the_cache_lies(name: str, mask: MaskKind) -> None:
    layouts = (
        {},
        {"paged": False},
        {"paged": False, "one_run": True, "runs": 1},
        {"one_run": True, "runs": 1},
        {"shared": 7},
    )
    for layout in layouts:
        need = replace(NEED, mask=mask, **layout)
        assert verify(kernels()[name], need) < 1e-5
        assert verify(kernels()[name], replace(need, dtype=torch.bfloat16, tokens=1)) < 4e-2


def test_the_self_test_runs_once_for_an_order_of_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Need] = []
    monkeypatch.setattr(check, "_error", lambda kernel, need: ran.append(need) or 0.0)
    verify.cache_clear()
    for visible in range(33, 64):
        need = replace(
            NEED, visible=visible, tokens=5 + visible % 4, runs=4 + visible % 3, batch=2 + visible % 2
        )
        assert checked("auto", need).name == "sdpa"
    assert len(ran) == 2 and (ran[1].visible, ran[1].tokens) == (64, 8)
    checked("auto", replace(NEED, visible=65))
    assert len(ran) == 4
    verify.cache_clear()


def test_a_refused_kernel_is_not_replaced_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "choose", lambda name, need: Spoilt(spoil=torch.zeros_like))
    with pytest.raises(KernelError, match="'spoilt'"):
        checked("auto", NEED)


@quiet
def test_the_report_says_for_each_kernel_what_it_is_and_what_would_mend_it() -> None:
    lines = {line.name: line for line in describe_kernels("cpu")}
    assert list(lines) == list(kernels())
    assert lines["sdpa"].usable and lines["sdpa"].selftest.startswith("passed, error")
    assert lines["segments"].paged and lines["segments"].masks == MASKS
    assert not lines["varlen"].usable and "CUDA devices only" in lines["varlen"].reason
    assert "choose 'sdpa'" in lines["varlen"].fix and lines["varlen"].selftest == "not run"
    assert lines["flash"].masks == ("full", "causal", "window")


def test_the_report_names_a_kernel_that_failed_its_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "kernels", lambda: {"spoilt": Spoilt()})
    [line] = describe_kernels("cpu")
    assert (line.usable, line.selftest, line.fix) == (False, "failed", "choose another kernel")
    assert "black" in line.reason


def test_a_gpu_is_described_in_the_dtype_models_use_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device: (9, 0))
    need = typical_need("cuda")
    assert (need.dtype, need.capability) == (torch.bfloat16, (9, 0))


@pytest.mark.parametrize("mask", MASKS)
def test_a_made_up_cache_lies_as_the_need_says(mask: MaskKind) -> None:
    for paged, one_run, runs in ((True, False, 4), (False, False, 3), (False, True, 1), (True, True, 1)):
        need = replace(NEED, mask=mask, paged=paged, one_run=one_run, runs=runs, visible=61, q_heads=4)
        assert Need.of(trial_batch(need), need.q_heads) == need
