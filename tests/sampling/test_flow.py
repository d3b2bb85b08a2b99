"""The few-step schedule and the noise of a stream."""

import pytest
import torch

from streamgen.sampling.flow import FlowSchedule, kept_noise, noise, renoise


def schedule(**changes: object) -> FlowSchedule:
    facts = {
        "shift": 5.0,
        "steps": (1000, 750, 500, 250),
        "warp": True,
        "prediction": "flow_prediction",
        "sampler": "renoise",
    }
    return FlowSchedule(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shift", "times"), [(5.0, (1000, 937.5, 833.333, 625)), (8.0, (1000, 960, 888.889, 727.273))]
)
def test_warped_steps_are_the_published_times(shift: float, times: tuple[float, ...]) -> None:
    assert schedule(shift=shift).timesteps == pytest.approx(times, abs=1e-3)


def test_unwarped_steps_keep_their_times_and_take_the_nearest_noise_level() -> None:
    plain = schedule(shift=8.0, steps=(1000, 757, 522), warp=False)
    assert plain.timesteps == (1000, 757, 522)
    assert plain.sigmas == pytest.approx((1.0, 0.75676, 0.52174), abs=1e-5)


def test_time_zero_is_not_quite_free_of_noise() -> None:
    assert schedule().sigma(0) == pytest.approx(0.0050, abs=1e-4)
    assert schedule(shift=8.0).sigma(0) == pytest.approx(0.0079, abs=1e-4)


def test_a_step_to_time_zero_is_a_real_step() -> None:
    assert schedule(steps=(1000, 500, 0)).timesteps[-1] == 0


def test_the_true_velocity_leads_back_to_the_clean_latents() -> None:
    clean, fresh = torch.randn(2, 3), torch.randn(2, 3)
    plan = schedule()
    x = renoise(clean, fresh, plan.sigmas[1])
    torch.testing.assert_close(plan.x0(x, fresh - clean, plan.sigmas[1]), clean)
    assert schedule(prediction="sample").x0(x, clean, 0.3) is clean


def test_noise_depends_on_its_key_alone() -> None:
    torch.manual_seed(1)
    first = noise(7, 0, 3, 1, (1, 4, 2, 3, 3))
    torch.manual_seed(2)
    torch.randn(5)
    assert torch.equal(first, noise(7, 0, 3, 1, (1, 4, 2, 3, 3)))
    others = [
        noise(*key, (1, 4, 2, 3, 3)) for key in ((8, 0, 3, 1), (7, 1, 3, 1), (7, 0, 4, 1), (7, 0, 3, 0))
    ]
    assert all(not torch.equal(first, other) for other in others)


def test_noise_of_a_stream_is_normal_and_its_chunks_are_independent() -> None:
    x = torch.stack([noise(0, 0, chunk, 0, (4000,)) for chunk in range(4)])
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03
    assert (torch.corrcoef(x) - torch.eye(4)).abs().max() < 0.06


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": ()}, "at least one"),
        ({"steps": (1200, 500)}, "from 1000 down to 0"),
        ({"steps": (500, 750)}, "each below the one before"),
        ({"steps": (1000, 522.5)}, "whole numbers"),
        ({"prediction": "epsilon"}, "choose 'flow_prediction'"),
        ({"sampler": "heun"}, "choose 'renoise'"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        schedule(**changes)


def test_an_euler_step_keeps_the_noise_it_came_from() -> None:
    clean, fresh = torch.randn(2, 3), torch.randn(2, 3)
    x = renoise(clean, fresh, 0.9)
    torch.testing.assert_close(kept_noise(x, clean, 0.9), fresh)
    torch.testing.assert_close(renoise(clean, kept_noise(x, clean, 0.9), 0.5), renoise(clean, fresh, 0.5))
