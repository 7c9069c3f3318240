"""Every family of faults comes equally often, in an order that a seed repeats."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.chaos.harness.families import Deck, family_of


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable


KINDS = (
    "kill",
    "kill_before_commit",
    "freeze_before_reply",
    "net_cut",
    "net_cut_up",
    "gateway_kill_before_grant",
    "storm",
)


def test_each_family_comes_once_before_any_comes_again() -> None:
    deck = Deck(KINDS, seeded(7))
    families = [family_of(deck.draw()) for _ in range(6 * 20)]
    for first in range(0, len(families), 6):
        assert len(set(families[first : first + 6])) == 6


def test_every_kind_of_a_family_comes() -> None:
    deck = Deck(KINDS, seeded(7))
    assert set(Counter(deck.draw() for _ in range(200))) == set(KINDS)


def test_a_seed_repeats_the_order() -> None:
    one, other = Deck(KINDS, seeded(3)), Deck(KINDS, seeded(3))
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("kill", "owner killed"),
        ("kill_before_offsets", "owner killed"),
        ("gateway_kill_before_hand_out", "gateway killed"),
        ("gateway_freeze_before_answer", "gateway frozen or restarted"),
        ("net_cut_up", "one-way link"),
        ("rejoin", "start after a kill or stop"),
    ],
)
def test_kinds_belong_to_the_family_that_issue_7_names(kind: str, family: str) -> None:
    assert family_of(kind) == family


def test_a_kind_without_a_family_is_refused() -> None:
    with pytest.raises(ValueError, match="meteorite belongs to no family"):
        Deck(["kill", "meteorite"], seeded(1))
