"""Hand-written tokenizers in the manner of several model families, and a policy with scripted samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from turnwise import Action, Rng, TaskSpec
from turnwise.agents.agent import EpisodeContext
from turnwise.envs.tools import Tool
from turnwise.inference.policy import Completion, Finish, Sampling

# Tools at the front, tool results as user messages, every message closed: the common manner.
CHATML = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Shows the agent's thoughts only since the last user message, as Qwen3 does; trims what it shows.
THINKING = (
    "{% set ns = namespace(last=-1) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and '</think>' in m.content and loop.index0 < ns.last %}"
    "{{ m.content.split('</think>')[-1].lstrip('\n') }}"
    "{% else %}{{ m.content | trim }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Tools before the last user message, so each new one rewrites history; roles must alternate; no system message.
MOVING = (
    "<s>{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('only user and assistant roles are supported') }}{% endif %}"
    "{% if m.role == 'user' %}{% if tools and loop.last %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
    "[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
# No token ends a message, and the closer is plain text.
PLAIN = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TEMPLATES = {"chatml": CHATML, "thinking": THINKING, "moving": MOVING, "plain": PLAIN}
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>")
EOS = {"chatml": "<|endoftext|>", "thinking": "<|im_end|>", "moving": "</s>", "plain": "<|endoftext|>"}

# Merges under which almost no sequence of ids survives a round trip through text: "ab" | "abc" | "bc" | "a b c" …
MERGES = [("a", "b"), ("ab", "c"), ("b", "c"), ("a", "a"), ("aa", "aa"), ("<", "|"), ("Ġ", "a"), ("Ċ", "Ċ"), ("c", "c")]


def tokenizer(manner: str = "chatml", **changes: Any) -> Any:
    """Byte-level BPE with non-bijective merges, and the chat template of one manner."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(dict.fromkeys(left + right for left, right in MERGES))]
    core = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=MERGES))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = changes.pop("special", SPECIAL)
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made: Any = PreTrainedTokenizerFast
    return made(
        tokenizer_object=core,
        chat_template=changes.pop("chat_template", TEMPLATES[manner]),
        eos_token=changes.pop("eos_token", EOS[manner]),
        **changes,
    )


class Parrot:
    """A policy that samples from a list of (ids, finish), one per request, and keeps the prompts that it read."""

    def __init__(self, lines: Sequence[tuple[Sequence[int], Finish]]) -> None:
        self.lines = list(lines)
        self.read: list[tuple[int, ...]] = []
        self.asked: list[Sampling] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        self.read.append(tuple(prompt_ids))
        self.asked.append(sampling)
        ids, finish = self.lines[len(self.read) - 1]
        return Completion(tuple(ids), tuple(-0.5 for _ in ids), tuple(3 for _ in ids), finish)


def context(
    *,
    tools: Sequence[Tool] = (),
    seed: int = 0,
    oracle: Callable[[], Action] = lambda: Action("best"),
    random: Callable[[int], Action] = lambda seed: Action(f"random {seed}"),
) -> EpisodeContext:
    """Return the context that a runner would give an agent."""

    async def ask() -> Action:
        return oracle()

    async def draw(seed: int) -> Action:
        return random(seed)

    return EpisodeContext("episode", "test/Env-v0", TaskSpec("test"), tools, Rng("agent", seed), ask, draw)
