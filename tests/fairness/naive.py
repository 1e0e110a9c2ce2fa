"""Slow, obvious twins: Algorithm 1 in fractions, a tuple at a time, and every way ties can fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

Choose = Callable[[list[str]], str]


@dataclass
class Node:
    """A node of the worked examples: capacity, and the SIC of each query's tuples in the order taken."""

    left: int
    tuples: dict[str, list[Fraction]]

    def turn(self, sic: dict[str, Fraction], choose: Choose, *, one: bool = False) -> list[str]:
        """Lines 12-19: the lowest query takes tuples until it reaches the second lowest."""
        waiting = [query for query, tuples in self.tuples.items() if tuples]
        if not waiting or self.left == 0:
            return []
        least = min(sic[query] for query in waiting)
        lowest = choose([query for query in waiting if sic[query] == least])
        others = [sic[query] for query in waiting if sic[query] != least]
        taken, reached = 0, sic[lowest]
        while self.tuples[lowest] and self.left:
            if taken and (one or not others or reached >= min(others)):
                break
            reached += self.tuples[lowest].pop(0)
            self.left -= 1
            taken += 1
        sic[lowest] = reached
        return [lowest] * taken


def every_choice(play: Callable[[Choose], object]) -> Iterator[object]:
    """What `play` gives for every sequence of answers to its choices."""
    open_: list[list[int]] = [[]]
    while open_:
        fixed = open_.pop()
        made: list[tuple[int, int]] = []

        def choose(tied: list[str], fixed: list[int] = fixed, made: list[tuple[int, int]] = made) -> str:
            pick = fixed[len(made)] if len(made) < len(fixed) else 0
            made.append((pick, len(tied)))
            return tied[pick]

        yield play(choose)
        for depth in range(len(fixed), len(made)):
            before = [pick for pick, _ in made[:depth]]
            open_ += [[*before, other] for other in range(1, made[depth][1])]


def tuple_by_tuple(
    rows: list[tuple[int, int, Fraction]], start: list[Fraction], capacity: int, weights: list[int]
) -> list[int]:
    """Algorithm 1, one tuple a turn: tuples kept of each query, ties to the first."""
    waiting: list[list[Fraction]] = [[] for _ in start]
    for query, offered, sic in rows:
        waiting[query] += [sic] * offered
    for tuples in waiting:
        tuples.sort()
    sic, kept = list(start), [0] * len(start)
    for _ in range(capacity):
        able = [query for query in range(len(start)) if waiting[query]]
        if not able:
            break
        lowest = min(able, key=lambda query: (sic[query] / weights[query], query))
        sic[lowest] += waiting[lowest].pop()
        kept[lowest] += 1
    return kept
