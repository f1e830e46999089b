"""Multi-turn GRPO in one file: an environment, a small transformer in plain torch, and the algorithm.

Run ``python examples/single_file_grpo.py``. In one to three minutes on a CPU, a model that guesses at random learns to
find a number by bisection, where each guess depends on all earlier turns. Start an algorithm of your own from here.

GRPO: Shao et al. (arXiv 2402.03300). Axes: B episodes, L tokens, V words, D the model's width, G groups of K episodes.
"""

import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import turnwise as tw


class GuessNumber(tw.TurnEnv):
    """Find the number between 1 and 10 within four turns."""

    max_turns = 4

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.secret = rng.randint(1, 10)
        return "Guess my number between 1 and 10."

    def act(self, action: tw.Action) -> tw.Step:
        guess = action.integer()  # an action without a number becomes an observation that says so
        if guess == self.secret:
            return tw.success("Correct!")
        return tw.running("Too low." if guess < self.secret else "Too high.")


# ---- Tokens. The conversation is one growing list of ids: what was sampled is never encoded again.

NUMBERS = [str(number) for number in range(1, 11)]
WORDS = ["<pad>", "<end>", "<agent>", "<other>", *NUMBERS, "Too", "low", "high", ".", "Guess", "my", "number"]
IDS = {word: i for i, word in enumerate(WORDS)}
PAD, END, AGENT, OTHER = range(4)
MAX_ACTION, CONTEXT = 2, 128
padded = partial(nn.utils.rnn.pad_sequence, batch_first=True)  # with PAD, unless another value is given


def encode(observation: tw.Observation) -> list[int]:
    """Ids of an observation, and the token after which the agent answers."""
    words = re.findall(r"\w+|[^\w\s]", observation.text)
    return [*[IDS.get(word, OTHER) for word in words][-24:], AGENT]


class Policy(nn.Module):
    """A causal transformer with two layers, about 100,000 weights."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(len(WORDS), width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, len(WORDS))

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Return logits of the next token, (B, L, V). Padding is on the right, where the causal mask hides it."""
        mask_LL = nn.Transformer.generate_square_subsequent_mask(ids_BL.shape[1])
        x_BLD = self.token(ids_BL) + self.place.weight[: ids_BL.shape[1]]
        logits_BLV: Tensor = self.head(self.blocks(x_BLD, mask=mask_LL, is_causal=True))
        return logits_BLV


# ---- Episodes. A group plays one task several times; its members differ only in what was sampled.

Sampled = tuple[list[int], list[float]]  # the ids of an action, and their log-probabilities
Act = Callable[[list[list[int]]], list[Sampled]]  # from conversations to one action each


@dataclass
class Episode:
    """The ids of a conversation; ``logprobs`` is NaN where the agent did not act."""

    env: tw.TurnEnv
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    total_reward: float = 0.0
    success: bool = False
    over: bool = False

    def add(self, ids: list[int], logprobs: list[float] | None = None) -> None:
        self.ids, self.logprobs = self.ids + ids, self.logprobs + (logprobs or [math.nan] * len(ids))


def guess_at_random(rows: list[list[int]]) -> list[Sampled]:
    """One valid guess per row."""
    return [([IDS[random.choice(NUMBERS)], END], [0.0, 0.0]) for _ in rows]


@torch.no_grad()
def sample(policy: Policy, rows: list[list[int]]) -> list[Sampled]:
    """Sample one action per row, up to ``<end>`` or ``MAX_ACTION`` tokens."""
    actions: list[Sampled] = [([], []) for _ in rows]
    while open_rows := [i for i, (ids, _) in enumerate(actions) if END not in ids and len(ids) < MAX_ACTION]:
        ids_BL = padded([torch.tensor(rows[i] + actions[i][0]) for i in open_rows])
        last_B = torch.tensor([len(rows[i]) + len(actions[i][0]) - 1 for i in open_rows])
        logp_BV = policy(ids_BL)[torch.arange(len(open_rows)), last_B].log_softmax(-1)
        next_B = torch.multinomial(logp_BV.exp(), 1)[:, 0].tolist()
        for i, token, logp_V in zip(open_rows, next_B, logp_BV, strict=True):
            actions[i][0].append(token)
            actions[i][1].append(float(logp_V[token]))
    return actions


def play(act: Act, tasks: Iterable[tw.TaskSpec], group_size: int = 1) -> list[Episode]:
    """Play each task ``group_size`` times, all episodes side by side, one turn at a time."""
    episodes = []
    for task in (task for task in tasks for _ in range(group_size)):
        episodes.append(Episode(GuessNumber()))
        observation, _ = episodes[-1].env.reset(options={"task": task})
        episodes[-1].add(encode(observation))
    while running := [episode for episode in episodes if not episode.over]:
        for episode, (ids, logprobs) in zip(running, act([each.ids for each in running]), strict=True):
            episode.add(ids, logprobs)  # token in, token out: these ids are what is trained on
            text = " ".join(WORDS[i] for i in ids if i != END)
            observation, reward, terminated, truncated, info = episode.env.step(text)
            episode.total_reward += reward
            episode.success, episode.over = bool(info.get("success")), terminated or truncated
            if not episode.over:
                episode.add(encode(observation))
    return episodes


# ---- GRPO: an episode's advantage is its return, standardized within its group; every sampled token gets it.


def advantages(episodes: list[Episode], group_size: int) -> Tensor:
    """Advantages (B,). Groups whose members all have the same return get zeros: they teach nothing."""
    return_GK = torch.tensor([episode.total_reward for episode in episodes]).view(-1, group_size)
    centered_GK = return_GK - return_GK.mean(1, keepdim=True)
    return (centered_GK / (return_GK.std(1, correction=0, keepdim=True) + 1e-6)).flatten()


def log_ratios(policy: Policy, episodes: list[Episode]) -> tuple[Tensor, Tensor]:
    """Log-probabilities now minus those at sampling time, 0 off the mask; and the mask, True where the agent acted."""
    ids_BL = padded([torch.tensor(episode.ids) for episode in episodes])
    old_BL = padded([torch.tensor(episode.logprobs) for episode in episodes], padding_value=math.nan)[:, 1:]
    logits_BVL = policy(ids_BL)[:, :-1].transpose(1, 2)
    mask_BL = ~old_BL.isnan()  # neither observations nor padding are trained on
    new_BL = -F.cross_entropy(logits_BVL, ids_BL[:, 1:], reduction="none")
    return torch.where(mask_BL, new_BL - old_BL.nan_to_num(), 0.0), mask_BL


def clipped_loss(policy: Policy, episodes: list[Episode], advantage_B: Tensor, clip: float = 0.2) -> Tensor:
    """PPO's clipped loss, averaged over all tokens of the batch (the paper: over each episode's first), without KL."""
    log_ratio_BL, mask_BL = log_ratios(policy, episodes)
    ratio_BL, advantage_BL = log_ratio_BL.exp(), advantage_B[:, None]
    objective_BL = torch.minimum(ratio_BL * advantage_BL, ratio_BL.clamp(1 - clip, 1 + clip) * advantage_BL)
    return -(objective_BL * mask_BL).sum() / mask_BL.sum()


def update(optimizer: torch.optim.Optimizer, policy: Policy, loss: Tensor) -> None:
    """Take one optimizer step."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


def train(steps: int = 150, tasks: int = 32, group_size: int = 8, epochs: int = 4, seed: int = 0) -> list[float]:
    """Return the success rates on 500 held-out tasks, before and after GRPO."""
    torch.manual_seed(seed)
    random.seed(seed)
    policy, family = Policy(), GuessNumber().tasks()
    act, held_out = partial(sample, policy), list(family.sample(500, split="test_iid"))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for step in range(150):  # warm start: clone random guesses, which teaches how to answer, not how to win
        # These guesses have the log-probability 0, so the ratio is the policy's own log-probability.
        log_ratio_BL, mask_BL = log_ratios(policy, play(guess_at_random, family.sample(64, first_seed=64 * step)))
        update(optimizer, policy, -log_ratio_BL.sum() / mask_BL.sum())
    before = fmean(episode.success for episode in play(act, held_out))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for step in range(steps):
        episodes = play(act, family.sample(tasks, first_seed=tasks * step), group_size)
        advantage_B = advantages(episodes, group_size)
        for _ in range(epochs):
            update(optimizer, policy, clipped_loss(policy, episodes, advantage_B))
        schedule.step()
        if step % 10 == 9:
            print(f"step {step + 1:4}  success in training {fmean(e.success for e in episodes):6.1%}", flush=True)
    return [before, fmean(episode.success for episode in play(act, held_out))]


if __name__ == "__main__":
    torch.set_num_threads(1)  # matrices this small are slower on several threads
    print("held-out tasks solved: {:.1%} before GRPO, {:.1%} after".format(*train()))
