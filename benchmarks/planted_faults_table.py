"""Planted faults: two realistic mistakes in each of ten places, each with the test files that should see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Args:
        place: part of the system that it breaks; two faults share each place.
        name: unique name, for ``--only`` and the report.
        file: path from the root of the repository.
        old: text that occurs exactly once in the file.
        new: text that replaces it.
        tests: test files to try first; whole files, so that tests can be renamed and moved within them.
    """

    place: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "loss sign",
        "cispo-sign",
        "trainers/learning/loss.py",
        "return bounded.detach() * advantage_N * logp_N, bounded != ratio_N",
        "return -bounded.detach() * advantage_N * logp_N, bounded != ratio_N",
        ("tests/trainers/learning/test_loss_options.py",),
    ),
    Fault(
        "loss sign",
        "kl-bonus",
        "trainers/learning/kl.py",
        "batch.reward_U.double() - coef * penalty_U",
        "batch.reward_U.double() + coef * penalty_U",
        ("tests/trainers/learning/test_kl.py",),
    ),
    Fault(
        "mask shift",
        "mask-early",
        "rollouts/rows.py",
        "self.mask += [False] * len(context) + [True] * len(turn.action_ids)",
        "self.mask += [False] * (len(context) - 1) + [True] * len(turn.action_ids) + [False]",
        ("tests/trainers/learning/test_rows.py",),
    ),
    Fault(
        "mask shift",
        "packed-logits-late",
        "trainers/learning/logprobs.py",
        "place_N = rows.mask.nonzero()[:, 0] - 1",
        "place_N = rows.mask.nonzero()[:, 0]",
        ("tests/trainers/learning/test_invariance.py",),
    ),
    Fault(
        "advantage baseline",
        "baseline-with-itself",
        "trainers/learning/advantages.py",
        "others_N = (size_N - 1).clamp_min(1)",
        "others_N = size_N.clamp_min(1)",
        ("tests/trainers/learning/test_advantages.py",),
    ),
    Fault(
        "advantage baseline",
        "baseline-of-the-batch",
        "trainers/algorithms/grpo.py",
        "centered(batch.return_E, batch.group_E, scale",
        "centered(batch.return_E, 0 * batch.group_E, scale",
        ("tests/trainers/algorithms/test_grpo.py",),
    ),
    Fault(
        "fork isolation",
        "shallow-copy",
        "envs/fork.py",
        "copied = copy.deepcopy(value, memo)",
        "copied = copy.copy(value)",
        ("tests/envs/test_fork.py",),
    ),
    Fault(
        "fork isolation",
        "shared-conversation",
        "agents/chat.py",
        "ChatSession(self._agent, self._conversation.copy(), context)",
        "ChatSession(self._agent, self._conversation, context)",
        ("tests/agents/test_chat.py",),
    ),
    Fault(
        "judge",
        "collateral-in-the-row",
        "tasks/rows/expected.py",
        'if self.kind == "update" and set(changed) != set(self.columns):',
        'if self.kind == "update" and not set(changed) >= set(self.columns):',
        ("tests/tasks/rows/test_judging.py",),
    ),
    Fault(
        "judge",
        "tuple-for-a-list",
        "tasks/code/canonical.py",
        "return [kind.__name__, [_encoded",
        'return ["list", [_encoded',
        ("tests/tasks/code/test_canonical.py",),
    ),
    Fault(
        "sandbox egress",
        "network-shared",
        "sandboxes/bubblewrap/arguments.py",
        '"--unshare-all", "--disable-userns"',
        '"--unshare-all", "--share-net", "--disable-userns"',
        ("tests/sandboxes/bubblewrap/test_bubblewrap.py",),
    ),
    Fault(
        "sandbox egress",
        "mounts-writable",
        "sandboxes/bubblewrap/rootfs.py",
        '["--ro-bind", str(mount.source), str(mount.target)]',
        '["--bind", str(mount.source), str(mount.target)]',
        ("tests/sandboxes/bubblewrap/test_bubblewrap.py",),
    ),
    Fault(
        "weight sync",
        "stale-cache",
        "trainers/weights/reload.py",
        "        await self.forget()\n",
        "",
        ("tests/trainers/weights/test_weight_sync.py",),
    ),
    Fault(
        "weight sync",
        "tied-weights-left-out",
        "trainers/weights/shared_folder.py",
        "            part[name] = ready.clone() if ready.data_ptr() in places else ready\n",
        "            if ready.data_ptr() not in places:\n                part[name] = ready\n",
        ("tests/trainers/weights/test_weight_sync.py",),
    ),
    Fault(
        "resume",
        "generator-forgotten",
        "trainers/run/generators.py",
        '    torch.set_rng_state(state["torch"])\n',
        "",
        ("tests/trainers/run/test_checkpoint.py",),
    ),
    Fault(
        "resume",
        "moments-forgotten",
        "trainers/learning/learner.py",
        "        self._optimizer.load_state_dict(optimizer)\n",
        "",
        ("tests/trainers/learning/test_learner.py", "tests/trainers/test_resume.py"),
    ),
    Fault(
        "command-line error",
        "certify-any",
        "commands/certify.py",
        "    if passed < len(certificates):\n",
        "    if passed == 0:\n",
        ("tests/commands/test_envs_certify.py",),
    ),
    Fault(
        "command-line error",
        "file-unnamed",
        "cli.py",
        'complain(f"{error.strerror or error}: {error.filename}" if error.filename else f"{error.strerror or error}")',
        'complain(f"{error.strerror or error}")',
        ("tests/commands/test_bad_input.py",),
    ),
    Fault(
        "statistics",
        "correlation-sign",
        "evals/statistics.py",
        "a * a - 2 * correlation * a * b + b * b",
        "a * a + 2 * correlation * a * b + b * b",
        ("tests/evals/test_statistics.py", "tests/evals/test_compare.py"),
    ),
    Fault(
        "statistics",
        "skew-mirrored",
        "evals/statistics.py",
        "skew = float(((residuals / deviation) ** 3).mean())",
        "skew = -float(((residuals / deviation) ** 3).mean())",
        ("tests/evals/test_statistics.py",),
    ),
)
