"""Collection in a separate process, a few steps ahead of the updates."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec
from wmtk.collecting.driver import EpisodeDriver, EpisodeSink
from wmtk.collecting.env_setup import EnvSetup, EpisodePlan
from wmtk.collecting.policies import Policy
from wmtk.collecting.workers import process_started, starting_process
from wmtk.datasets import Episode
from wmtk.errors import EnvironmentFailedError
from wmtk.runs.state_dict import fork_rng


@dataclass
class CollectionResult:
    """The result of a request, and the sink of the `EpisodeDriver` in the collecting process."""

    episodes: list[tuple[int, Episode]] = field(default_factory=list)
    unfinished_steps: int = 0
    messages: list[str] = field(default_factory=list)
    failure: tuple[str, str] | None = None
    is_over: bool = False  # all plans are complete

    def add(self, env_index: int, episode: Episode) -> None:
        self.episodes.append((env_index, episode))

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass


class AsyncCollector:
    """Collects at least `quantum` steps per round, during the updates on earlier steps.

    Each round uses the weights at the time of its request. The collected episodes are therefore
    deterministic in the seed, but differ from those of `SyncCollector`.
    """

    def __init__(
        self,
        plans: Sequence[EpisodePlan],
        policy: Policy,
        env: EnvSetup,
        sink: EpisodeSink,
        quantum: int,
    ) -> None:
        self.unfinished_steps = 0
        self._policy, self._shared_policy = policy, _copied(policy)
        self._env, self._sink, self._quantum = env, sink, quantum
        self._plans = plans

    def rollouts(self) -> Generator[None]:
        # Not "fork": this process has threads, and may use a GPU.
        context = torch.multiprocessing.get_context("spawn")
        connection, remote = context.Pipe()
        quiet = replace(self._env, stop=_never, on_steps=_ignore, on_message=_ignore)
        arguments = remote, self._plans, self._shared_policy, quiet
        process = context.Process(target=_serve, args=arguments)
        with starting_process():
            process.start()
        remote.close()
        is_requested = False
        try:
            while True:
                if not is_requested:
                    self._request(connection)
                    is_requested = True
                result = self._receive(connection, process)
                is_requested = not (result.is_over or result.failure)
                if is_requested:
                    self._request(connection)
                self._store(result)
                yield
                if result.is_over:
                    return
        finally:
            # Store the steps of the last request, if the process is still alive.
            with contextlib.suppress(EOFError, OSError, EnvironmentFailedError):
                if is_requested:
                    self._store(self._receive(connection, process))
                connection.send(None)
            process.join(5)
            process.kill()
            process.join()
            connection.close()

    def _request(self, connection: Connection) -> None:
        """Request steps with the current weights."""
        pairs = zip(_networks(self._shared_policy), _networks(self._policy), strict=True)
        for shared, current in pairs:
            with torch.no_grad():
                for old, new in zip(shared.parameters(), current.parameters(), strict=True):
                    old.copy_(new)
        with contextlib.suppress(OSError):  # the process died: `_receive` raises
            connection.send(self._quantum)

    def _receive(self, connection: Connection, process: Any) -> CollectionResult:
        while not connection.poll(0.2):
            if not process.is_alive() and not connection.poll(0):
                break
        try:
            result = connection.recv()
        except (EOFError, OSError) as error:
            process.join(5)
            raise EnvironmentFailedError(
                f"The collecting process died (exit code {process.exitcode}).",
                "Without background collection and with workers=1, the environment runs in a "
                "separate process, which is replaced when it dies.",
            ) from error
        assert isinstance(result, CollectionResult), result
        return result

    def _store(self, result: CollectionResult) -> None:
        for env_index, episode in result.episodes:
            self._sink.add(env_index, episode)
        self.unfinished_steps = result.unfinished_steps
        for message in result.messages:
            self._env.on_message(message)
        if result.failure:
            raise EnvironmentFailedError(*result.failure)


def _networks(policy: Policy) -> list[nn.Module]:
    return [policy.model, policy.actor_critic] if isinstance(policy, ActorPolicy) else []


def _copied(policy: Policy) -> Policy:
    """A copy of the policy with its networks on the CPU, in shared memory."""
    if not isinstance(policy, ActorPolicy):
        return policy
    schema = policy.schema
    with fork_rng():
        # A new model: one of lower precision has forward functions that cannot be pickled.
        size = ActionCodec(schema.action).size
        model = type(policy.model)(policy.model.config, schema.obs, size)
    model.load_state_dict(policy.model.state_dict())
    actor_critic = copy.deepcopy(policy.actor_critic).cpu()
    for network in (model, actor_critic):
        network.requires_grad_(False).share_memory()
    return ActorPolicy(model, actor_critic, schema, sample=policy.sample, seed=policy.seed)


def _never() -> bool:
    return False


def _ignore(_: object) -> None:
    pass


def _serve(
    connection: Connection, plans: Sequence[EpisodePlan], policy: Policy, env: EnvSetup
) -> None:
    """The main function of the collecting process."""
    process_started()
    torch.set_num_threads(1)
    result = CollectionResult()
    driver = EpisodeDriver(policy, result, on_message=lambda text: result.messages.append(text))
    rollouts = driver.rollouts(plans, env.workers, env.timeout, 1)
    with contextlib.closing(rollouts), contextlib.suppress(EOFError, OSError):
        while (steps := connection.recv()) is not None:
            target = driver.steps_taken + steps
            try:
                while driver.steps_taken < target and not result.is_over:
                    result.is_over = next(rollouts, result) is result
            except EnvironmentFailedError as error:
                result.failure = error.message, error.hint
            result.unfinished_steps = driver.unfinished_steps
            connection.send(result)
            result.episodes, result.messages, result.failure = [], [], None
