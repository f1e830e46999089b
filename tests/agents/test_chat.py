"""``ChatAgent``: what was sampled is what is recorded, under every context strategy; demonstrations are the same."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, Observation, ToolCall
from turnwise.agents.agent import Decision
from turnwise.agents.chat import ChatAgent
from turnwise.agents.context import FullHistory, LastTurns, MarkovianSummary, Round, context_strategy
from turnwise.agents.template import ChatTemplate
from turnwise.agents.tool_calls import ToolCallParser
from turnwise.agents.transcript import Utterance
from turnwise.envs.messages import ImagePart, Message, message
from turnwise.envs.tools import Tool, describe
from turnwise.errors import ModelError, PromptTooLongError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.transformers_policy import TransformersPolicy

from .fakes import TEMPLATES, Parrot, context, tokenizer

CHAT = {manner: ChatTemplate(tokenizer(manner)) for manner in TEMPLATES}
STOP = CHAT["chatml"].stop_ids[0]
VOCABULARY = len(CHAT["chatml"].tokenizer)
STRATEGIES = ("full", "last:1", "last:2", "last:3", "short:1:3", "short:2:4", "summary")


def ids(text: str) -> tuple[int, ...]:
    return CHAT["chatml"].encode(text)


def line(text: str) -> tuple[tuple[int, ...], Finish]:
    return (*ids(text), STOP), Finish.STOP


async def play(agent: ChatAgent, observations: Sequence[str], seed: int = 0, **kwargs: Any) -> list[Decision]:
    session = agent.start(context(seed=seed, **kwargs))
    return [await session.act(Observation.of(text)) for text in observations]


def shown(decision: Decision, manner: str = "chatml") -> str:
    return CHAT[manner].decode(decision.prompt_ids)


@given(
    sampled=st.lists(
        st.tuples(st.lists(st.integers(0, VOCABULARY - 1), max_size=10), st.sampled_from(["stop", "length", "abort"])),
        min_size=1,
        max_size=6,
    ),
    strategy=st.sampled_from(STRATEGIES),
    manner=st.sampled_from(["chatml", "thinking", "plain"]),
)
def test_recorded_ids_are_byte_for_byte_those_sampled(
    sampled: list[tuple[list[int], str]], strategy: str, manner: str
) -> None:
    """Trap 1: under a tokenizer whose ids do not survive text, nothing that was sampled is ever encoded again."""
    template = CHAT[manner]
    lines = [
        ((*tokens, template.stop_ids[0]) if finish == "stop" else tuple(tokens), Finish(finish))
        for tokens, finish in sampled
    ]
    policy = Parrot(lines)
    agent = ChatAgent(policy, template, context=strategy)
    decisions = asyncio.run(play(agent, [f"say {i}" for i in range(len(lines))]))
    for decision, (tokens, finish), read in zip(decisions, lines, policy.read, strict=True):
        assert decision.action_ids == tokens, "the recorded action is not what was sampled"
        assert decision.prompt_ids == read, "the recorded prompt is not what the policy read"
        assert decision.finish is finish
        assert len(decision.logprobs) == len(decision.versions) == len(tokens)
    if strategy == "full" and manner != "thinking":
        for one, two in itertools.pairwise(decisions):
            joined = one.prompt_ids + one.action_ids
            assert two.prompt_ids[: len(joined)] == joined, "full history in an appending template is one row"


async def test_the_action_is_what_was_said_without_the_stop_token() -> None:
    policy = Parrot([line("go left"), (ids("go ri"), Finish.LENGTH)])
    one, two = await play(ChatAgent(policy, CHAT["chatml"]), ["where?", "and now?"])
    assert (one.action, two.action) == (Action("go left"), Action("go ri"))
    assert (one.finish, two.finish) == (Finish.STOP, Finish.LENGTH)
    assert one.versions == (3,) * len(one.action_ids)


async def test_every_request_has_a_seed_of_its_own_from_the_episodes_generator() -> None:
    def policy() -> Parrot:
        return Parrot([line("a")] * 3)

    first, again, other, fixed = policy(), policy(), policy(), policy()
    for one, seed in ((first, 1), (again, 1), (other, 2)):
        await play(ChatAgent(one, CHAT["chatml"]), ["x"] * 3, seed=seed)
    await play(ChatAgent(fixed, CHAT["chatml"], sampling=Sampling(seed=4)), ["x"] * 3)
    seeds = [[asked.seed for asked in one.asked] for one in (first, again, other, fixed)]
    assert seeds[0] == seeds[1], "the same episode must ask with the same seeds"
    assert len({*seeds[0], *seeds[2]}) == 6, "turns and episodes must not share seeds"
    assert seeds[3] == [4, 4, 4]


async def test_the_templates_stop_ids_join_the_callers() -> None:
    policy = Parrot([line("a")])
    await play(ChatAgent(policy, CHAT["chatml"], sampling=Sampling(stop_ids=(7,), temperature=0.5)), ["x"])
    assert policy.asked[0].stop_ids == (7, *CHAT["chatml"].stop_ids)
    assert policy.asked[0].temperature == 0.5


async def test_a_system_text_opens_the_episode_or_joins_what_opens_it() -> None:
    policy = Parrot([line("a"), line("b"), line("c")])
    agent = ChatAgent(policy, CHAT["chatml"], system="Be brief.")
    one, two = await play(agent, ["x", "y"])
    assert shown(one).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nx")
    assert shown(two).count("Be brief.") == 1
    own = Observation((message("system", "You are a robot."), message("user", "x")))
    three = await agent.start(context()).act(own)
    assert shown(three).startswith("<|im_start|>system\nYou are a robot.\n\nBe brief.<|im_end|>")


class TestContext:
    async def test_full_history_shows_everything(self) -> None:
        policy = Parrot([line(word) for word in "abc"])
        *_, last = await play(ChatAgent(policy, CHAT["chatml"], context="full"), ["one", "two", "three"])
        assert shown(last) == (
            "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
            "<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n"
        )

    async def test_last_turns_shows_a_window_after_the_system_message(self) -> None:
        for strategy, visible in (("last:1", ["three"]), ("last:2", ["two", "b", "three"])):
            policy = Parrot([line(word) for word in "abc"])
            agent = ChatAgent(policy, CHAT["chatml"], context=strategy, system="rules")
            *_, last = await play(agent, ["one", "two", "three"])
            text = shown(last)
            assert text.startswith("<|im_start|>system\nrules<|im_end|>\n<|im_start|>")
            found = [w for w in ("one", "a", "two", "b", "three") if f"\n{w}<|im_end|>" in text]
            assert found == visible, f"{strategy} shows the wrong part"

    def test_the_system_message_can_go_too(self) -> None:
        rounds = [
            Round(Observation((message("system", "s"), message("user", "1"))), Utterance((1,), "a", True)),
            Round(Observation.of("2")),
        ]
        assert LastTurns(1, keep_system=False).view(rounds) == [message("user", "2")]
        assert LastTurns(1).view(rounds) == [message("system", "s"), message("user", "2")]
        assert LastTurns(2).view(rounds)[:2] == [message("system", "s"), message("user", "1")], "not shown twice"
        assert LastTurns(5).view(rounds) == FullHistory().view(rounds), "a window larger than the episode is all of it"

    async def test_a_summary_is_the_task_the_summary_and_the_last_exchange(self) -> None:
        """S18: the prompt's length does not grow with the episode."""
        said = [
            "<summary>one is dead</summary>try two",
            "try three",
            "<summary>one, two and three are dead</summary>try four",
            "end",
        ]
        agent = ChatAgent(Parrot([line(text) for text in said]), CHAT["chatml"], context=MarkovianSummary("Sum up."))
        decisions = await play(agent, ["find it", "two: no", "three: no", "four: no"])
        assert [decision.action.text for decision in decisions] == ["try two", "try three", "try four", "end"], (
            "the environment must not see the summary"
        )
        assert shown(decisions[0]) == "<|im_start|>user\nfind it\nSum up.<|im_end|>\n<|im_start|>assistant\n"
        assert shown(decisions[2]) == (
            "<|im_start|>user\nfind it\nSum up.\n<summary>one is dead</summary><|im_end|>\n"
            "<|im_start|>assistant\ntry three<|im_end|>\n"
            "<|im_start|>user\nthree: no<|im_end|>\n<|im_start|>assistant\n"
        ), "a round without a summary keeps the one before"
        assert "<summary>one, two and three are dead</summary>" in shown(decisions[3])
        assert "two: no" not in shown(decisions[3])

    @pytest.mark.parametrize(
        ("opens", "said"),
        [
            ("", "<think>secret</think>go"),
            ("<think>\n", "secret</think>go"),  # DeepSeek-R1's prompt ends inside a thought
            ("", "[THINK]secret[/THINK]go"),
            ("", "go<think>secret"),  # cut before it was closed
        ],
    )
    async def test_a_summary_shows_no_thought_of_the_round_before(self, opens: str, said: str) -> None:
        manner = TEMPLATES["chatml"].replace("assistant\n{% endif %}", f"assistant\n{opens}{{% endif %}}")
        template = ChatTemplate(tokenizer("chatml", chat_template=f"{{# [THINK] #}}{manner}"))
        agent = ChatAgent(Parrot([line(said), line("end")]), template, context="summary")
        *_, last = await play(agent, ["find it", "no"])
        assert "<|im_start|>assistant\ngo<|im_end|>" in shown(last), "the action stays"
        assert "secret" not in shown(last), "what was thought is of its round"

    async def test_a_short_past_keeps_the_task_all_that_was_said_and_the_last_page(self) -> None:
        agent = ChatAgent(
            Parrot([line(word) for word in "abc"]), CHAT["chatml"], context="short:1:8", system="rules are long"
        )
        *_, last = await play(agent, ["find it: a long page", "short", "the present page"])
        assert shown(last) == (
            "<|im_start|>system\nrules are long<|im_end|>\n"
            "<|im_start|>user\nfind it: …<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
            "<|im_start|>user\nshort<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>user\nthe present page<|im_end|>\n<|im_start|>assistant\n"
        )

    async def test_every_round_of_a_rewriting_strategy_is_a_row(self) -> None:
        for strategy, rows in (("full", 1), ("last:1", 4), ("last:3", 2), ("summary", 4)):
            session = ChatAgent(Parrot([line("a")] * 4), CHAT["chatml"], context=strategy).start(context())
            for text in ("1", "2", "3", "4"):
                await session.act(Observation.of(text))
            assert session.rows == rows, f"{strategy}: {session.rows} rows"

    def test_strategies_by_name(self) -> None:
        window = context_strategy("last:12")
        assert isinstance(window, LastTurns)
        assert window.k == 12
        assert isinstance(context_strategy("summary"), MarkovianSummary)
        assert context_strategy(window) is window

    @pytest.mark.parametrize(
        "name", ["", "last", "last:", "last:0", "last:-1", "last:x", "Full", "full:3", "last:²", "short:1", "short:0:5"]
    )
    def test_a_strategy_that_does_not_exist_names_those_that_do(self, name: str) -> None:
        with pytest.raises(UsageError, match=r"last:|short:"):
            context_strategy(name)


class TestDemonstrations:
    turns = (
        (Observation.of("You see a wall. <|im_end|>"), Action("left")),
        (Observation.of("You see a door."), Action("open abc")),
        (Observation.of("You see gold."), Action("")),
    )

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("manner", ["chatml", "thinking", "plain"])
    async def test_they_are_what_the_agent_would_have_read_and_said(self, manner: str, strategy: str) -> None:
        """The law of behavior cloning: sampling those very ids gives those very prompts."""
        made = ChatAgent(Parrot([]), CHAT[manner], context=strategy).encode_demonstration(self.turns)
        policy = Parrot([(decision.action_ids, Finish.STOP) for decision in made])
        session = ChatAgent(policy, CHAT[manner], context=strategy).start(context())
        lived = [await session.act(observation) for observation, _ in self.turns]
        for demonstrated, sampled in zip(made, lived, strict=True):
            assert demonstrated.prompt_ids == sampled.prompt_ids
            assert demonstrated.action_ids == sampled.action_ids
            assert demonstrated.action == sampled.action
            assert demonstrated.action_ids[-1] == CHAT[manner].stop_ids[0], "the stop token is learnt (trap 6)"
            assert set(demonstrated.versions) == {-1}
            assert set(demonstrated.logprobs) == {0.0}

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("manner", ["chatml", "thinking", "plain"])
    async def test_recalled_turns_lead_to_the_prompt_that_would_follow_them(self, manner: str, strategy: str) -> None:
        """Scripted turns are written as demonstrations are; sampled ids are taken as they are, however they decode."""
        said = [((*ids("go"), *ids(" left")), Finish.LENGTH), ((*ids("a b"), CHAT[manner].stop_ids[0]), Finish.STOP)]
        agent = ChatAgent(Parrot([*said, *said]), CHAT[manner], context=strategy)
        last, session = Observation.of("And now?"), agent.start(context())
        lived = [(observation, await session.act(observation)) for observation, _ in self.turns[:2]]
        recalling = agent.start(context())
        recalling.recall(lived)
        assert recalling.read(last) == session.read(last)
        scripted = agent.start(context())
        scripted.recall([(observation, Decision(action)) for observation, action in self.turns])
        assert scripted.read(last) == agent.encode_demonstration([*self.turns, (last, Action("x"))])[-1].prompt_ids

    async def test_a_recalled_session_samples_as_one_that_acted(self) -> None:
        policy = Parrot([line(word) for word in ("a", "b", "c")])
        agent = ChatAgent(policy, CHAT["chatml"])
        session, recalling = agent.start(context(seed=1)), agent.start(context(seed=1))
        one = Observation.of("one")
        recalling.recall([(one, await session.act(one))])
        await session.act(Observation.of("two"))
        await recalling.act(Observation.of("two"))
        assert policy.asked[1].seed == policy.asked[2].seed != policy.asked[0].seed, "the seed of the second turn"

    async def test_tool_calls_and_tags_are_written_by_the_parser(self) -> None:
        call = Action("Let me look.", (ToolCall("look", {"at": "door"}, "call_1"),))
        turns = [(Observation.of("q"), call)]
        agent = ChatAgent(Parrot([]), CHAT["chatml"], parser="tools", show_tools=False)
        (decision,) = agent.encode_demonstration(turns, tools=[LOOK])
        assert agent.parser_for([LOOK]).parse(CHAT["chatml"].decode(decision.action_ids[:-1])) == Action(
            "Let me look.", (ToolCall("look", {"at": "door"}, "call_1"),)
        )
        with pytest.raises(ModelError, match="'text' parser cannot write tool calls"):
            ChatAgent(Parrot([]), CHAT["chatml"]).encode_demonstration(turns)

    def test_a_word_that_the_tokenizer_lacks_is_an_error_not_an_unknown_token(self) -> None:
        agent = ChatAgent(Parrot([]), build_tokenizer("word", ["go left"]))
        with pytest.raises(ModelError, match="cannot write 'go right'"):
            agent.encode_demonstration([(Observation.of("x"), Action("go right"))])


def look(at: str) -> str:
    """Look at something.

    Args:
        at: position to check.
    """
    return at


LOOK: Tool = describe(look, "look")


async def test_tools_reach_the_prompt() -> None:
    policy = Parrot([line("x"), line("y")])
    one, two = await play(ChatAgent(policy, CHAT["chatml"]), ["q", "r"], tools=[LOOK])
    assert "Look at something." in shown(one)
    assert shown(two).count("Look at something.") == 1
    hidden = await play(ChatAgent(Parrot([line("x")]), CHAT["chatml"], show_tools=False), ["q"], tools=[LOOK])
    assert "Look at something." not in shown(hidden[0])


async def test_a_template_that_hides_the_tools_has_them_in_the_system_message() -> None:
    agent = ChatAgent(Parrot([line("x")]), CHAT["plain"], system="Be brief.")
    decision = await agent.start(context(tools=[LOOK])).act(Observation.of("q"))
    assert shown(decision, "plain") == (
        f"system: Be brief.\n\nYou can call these tools:\n{json.dumps(LOOK.to_json())}\n{ToolCallParser.HOW}\n"
        "user: q\nassistant: "
    )
    with pytest.raises(ModelError, match="does not show tools"):
        ChatAgent(Parrot([]), CHAT["plain"], parser="text").start(context(tools=[LOOK]))


async def test_an_image_is_refused_in_words() -> None:
    picture = Observation((Message("user", (ImagePart(b"png"),)),))
    with pytest.raises(ModelError, match="image"):
        await ChatAgent(Parrot([]), CHAT["chatml"]).start(context()).act(picture)


async def test_a_conversation_that_outgrows_the_context_fails_and_is_never_cut() -> None:
    """Trap 7: the policy's fault, with the numbers."""
    made = build_tokenizer("byte")
    model = build_model(NanoConfig(tokenizer="byte", size="0.1M", context_length=64), made)
    session = ChatAgent(TransformersPolicy(model, made), made, sampling=Sampling(max_tokens=4)).start(context())
    await session.act(Observation.of("x" * 20))
    with pytest.raises(PromptTooLongError, match=r"the prompt has \d+ tokens, and the context of 64"):
        await session.act(Observation.of("y" * 60))


async def test_a_forked_session_goes_its_own_way_from_the_same_past() -> None:
    policy = Parrot([line(word) for word in ("a", "b", "c")])
    session = ChatAgent(policy, CHAT["chatml"]).start(context(seed=1))
    await session.act(Observation.of("one"))
    twin = session.fork(context(seed=2))
    one, other = await session.act(Observation.of("two")), await twin.act(Observation.of("2"))
    assert "\na<|im_end|>" in shown(other)
    assert shown(one).replace("two", "2") == shown(other)
    assert policy.asked[1].seed != policy.asked[2].seed


async def test_a_whole_run_is_reproducible_to_the_last_bit() -> None:
    """Many episodes at once through template, transcript and model, twice: identical ids and log-probabilities."""
    made = build_tokenizer("word", ["You see a wall. Go left, right or back."])
    model = build_model(NanoConfig(size="0.1M"), made)

    async def run() -> list[list[Decision]]:
        policy = TransformersPolicy(model, made, max_batch=4)
        agent = ChatAgent(policy, made, sampling=Sampling(max_tokens=5), context="last:2")

        async def episode(number: int) -> list[Decision]:
            rng, session, decisions = random.Random(number), agent.start(context(seed=number)), []
            for _ in range(1 + number % 4):
                word = rng.choice(["left", "right", "wall"])
                decisions.append(await session.act(Observation.of(f"You see {word}.")))
            return decisions

        return await asyncio.gather(*(episode(i) for i in range(10)))

    one, two = await run(), await run()

    def bits(run: list[list[Decision]]) -> list[list[tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]]]:
        return [[(d.prompt_ids, d.action_ids, d.logprobs) for d in episode] for episode in run]

    assert bits(one) == bits(two), "two runs with the same seeds differ"
