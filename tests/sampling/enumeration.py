"""Every outcome of a program that asks for chance, with its exact probability."""

from collections import defaultdict
from collections.abc import Callable

from torch import Tensor, float64, tensor

from streamgen.sampling.dice import Dice

Outcomes = dict[tuple[int, ...], float]


class Scripted:
    """Dice that follow a script and take the first outcome after its end, keeping what else there was."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.taken: list[tuple[int, Tensor]] = []

    def _choose(self, weights: Tensor) -> int:
        number = len(self.taken)
        possible = weights.nonzero().flatten().tolist()
        outcome = self.script[number] if number < len(self.script) else possible[0]
        self.taken.append((outcome, weights))
        return outcome

    def coin(self, chance: float) -> bool:
        return self._choose(tensor([1 - chance, chance], dtype=float64)) == 1

    def pick(self, weights: Tensor) -> int:
        return self._choose(weights)


def enumerate_outcomes(run: Callable[[Dice], tuple[int, ...]]) -> Outcomes:
    """The exact distribution of what `run` returns, over every outcome of its dice."""
    outcomes: Outcomes = defaultdict(float)
    pending: list[list[int]] = [[]]
    while pending:
        dice = Scripted(pending.pop())
        result = run(dice)
        chance = 1.0
        for outcome, weights in dice.taken:
            chance *= float(weights[outcome])
        outcomes[result] += chance
        for number in range(len(dice.script), len(dice.taken)):
            outcome, weights = dice.taken[number]
            prefix = [taken for taken, _ in dice.taken[:number]]
            others = [other for other in weights.nonzero().flatten().tolist() if other != outcome]
            pending += [[*prefix, other] for other in others]
    return outcomes
