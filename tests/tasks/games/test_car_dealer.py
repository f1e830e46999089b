"""The buyer's rules, the published reward, and how a dealer's words are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Split
from turnwise.tasks.games.car_dealer import (
    BRANDS,
    CLAIMS,
    DEALERS,
    HELD_OUT,
    SHADES,
    Car,
    CarDealer,
    Reaction,
    fit,
    fitted,
    next_price,
)
from turnwise.tasks.games.car_dealer_talk import PERSONAS, QUESTIONS, Said, Topic, heard

SPECS = st.builds(
    lambda seed, split, level: DEALERS.spec(seed, split=split, level=level),
    st.integers(0, 10_000),
    st.sampled_from(list(Split)),
    st.sampled_from(DEALERS.levels),
)
GAMES = SPECS.map(DEALERS.generate)
CARS = (
    Car("Honda", "SUV", ("a sunroof",), 30_000),
    Car("Honda", "sedan", ("a sunroof",), 25_000),
    Car("BMW", "truck", ("a sunroof",), 50_000),
)


@given(GAMES)
def test_the_published_reward(game: CarDealer) -> None:
    car = game.cars[0]
    assert game.sale(car, 1000) == 1000 / ((game.buyer.budget + car.msrp) / 2)
    assert game.lost <= 0.0, "losing a buyer never pays"
    assert 0.8 < game.best < 1.2


@given(GAMES, st.integers(1, 30))
def test_offers_rise_to_the_reservation_price_and_never_above(game: CarDealer, rounds: int) -> None:
    for car in game.cars:
        assert game.offer(car, rounds) <= game.offer(car, rounds + 1) <= game.worth(car) <= game.buyer.budget
        assert game.offer(car, game.buyer.rounds) == game.worth(car)


@given(GAMES, st.integers(1, 200_000), st.integers(1, 10), st.integers(0, 6))
def test_reactions_tell_the_truth(game: CarDealer, price: int, rounds: int, patience: int) -> None:
    car = game.cars[0]
    worth = game.worth(car)
    reaction, left = game.react(car, price, rounds, patience)
    assert (reaction is Reaction.ACCEPT) == (price <= game.offer(car, rounds))
    assert (reaction in (Reaction.ACCEPT, Reaction.CLOSE)) == (price <= worth)
    assert patience - left == (0 if price <= worth else 1 if price <= 1.1 * worth else 2)
    assert (reaction is Reaction.LEAVE) == (left < 0)


@given(GAMES)
def test_what_a_buyer_says_of_the_budget_is_near_it(game: CarDealer) -> None:
    buyer = game.buyer
    assert SHADES[0] * buyer.budget - 100 <= buyer.claim <= buyer.budget
    wanted = next(car for car in game.cars if (car.brand, car.kind) == (buyer.brand, buyer.kind))
    assert buyer.budget >= wanted.msrp
    assert set(buyer.features) <= set(wanted.features)
    assert fit(wanted, buyer.brand, buyer.kind, buyer.features) == pytest.approx(1.12)
    assert fitted(buyer, wanted) >= wanted.msrp
    assert len({car.name for car in game.cars}) == len(game.cars)


@pytest.mark.slow
@given(st.integers(1_000, 100_000), st.integers(0, 50_000))
def test_an_honest_price_lies_between_what_is_known(low: int, more: int) -> None:
    assert low <= next_price(low, low + more) <= low + more


def test_personas_and_brands_are_held_out() -> None:
    assert set(PERSONAS) == set(CLAIMS)
    assert all(SHADES[0] <= share <= SHADES[1] for share in CLAIMS.values())
    assert not set(BRANDS[False]) & set(BRANDS[True])
    for split in Split:
        games = [DEALERS.generate(spec) for spec in DEALERS.sample(20, split=split)]
        brands = {car.brand for game in games for car in game.cars}
        assert brands <= set(BRANDS[split in (Split.TEST_ENTITY, Split.CHALLENGE)])
        held = {game.buyer.persona in HELD_OUT for game in games}
        assert held == {split in (Split.TEST_TEMPLATE, Split.CHALLENGE)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I offer you the Honda SUV for $29,500.", Said(car=0, price=29_500)),
        ("The bmw could be yours for 48k", Said(car=2, price=48_000)),
        ("MSRP is $30,000, but you get the Honda SUV for $27,000!", Said(car=0, price=27_000)),
        ("How about 27500.50 dollars?", Said(price=27_500)),
        ("What is your budget?", Said(topic=Topic.BUDGET)),
        ("How much can you spend?", Said(topic=Topic.BUDGET)),
        ("What kind of car are you looking for?", Said(topic=Topic.KIND)),
        ("Any features you need?", Said(topic=Topic.FEATURES)),
        ("Do you like the Honda?", Said()),
        ("Look at this sedan.", Said(car=1)),
        ("Deal.", Said(accepts=True)),
        ("OK, it's a deal!", Said(accepts=True)),
        ("Do we have a deal?", Said()),
        ("No deal.", Said(leaves=True)),
        ("Goodbye", Said(leaves=True)),
        ("It has 4 doors and 300 horses.", Said()),
        ("", Said()),
        ("$" + "9" * 40, Said()),
    ],
)
def test_messages_are_understood(text: str, said: Said) -> None:
    assert heard(text, CARS) == said


def test_canonical_questions_have_their_topic() -> None:
    for topic, question in QUESTIONS.items():
        assert heard(question, CARS).topic is topic


@given(st.text(max_size=200))
def test_reading_is_total(text: str) -> None:
    said = heard(text, CARS)
    assert said.price is None or 1_000 <= said.price <= 10_000_000
