"""EnvSetup in a process of its own while this one learns, a few steps ahead."""

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
from wmtk.models.world_model import WorldModel
from wmtk.runs.state_dict import fork_rng


@dataclass
class Played:
    """What came of a request; an `EpisodeSink` in the other process."""

    episodes: list[tuple[int, Episode]] = field(default_factory=list)
    unfinished_steps: int = 0
    messages: list[str] = field(default_factory=list)
    failure: tuple[str, str] | None = None
    is_over: bool = False  # all plans are fulfilled

    def add(self, env_index: int, episode: Episode) -> None:
        self.episodes.append((env_index, episode))

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass


class AsyncCollector:
    """Plays `quantum` steps or a few more at a time, the next while the last are learned from.

    Which weights play is settled: those of the moment in which steps are asked for. So this too
    is deterministic in the seed, with another outcome than playing in the foreground.
    """

    def __init__(
        self,
        plans: Sequence[EpisodePlan],
        policy: Policy,
        playing: EnvSetup,
        sink: EpisodeSink,
        quantum: int,
    ) -> None:
        self.unfinished_steps = 0
        self._policy, self._theirs = policy, _copied(policy)
        self._playing, self._sink, self._quantum = playing, sink, quantum
        self._plans = plans

    def rollouts(self) -> Generator[None]:
        # Not forked: this process has threads, and may have a GPU.
        context = torch.multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        quiet = replace(self._playing, stop=_never, on_steps=_ignore, on_message=_ignore)
        process = context.Process(target=_serve, args=(theirs, self._plans, self._theirs, quiet))
        with starting_process():
            process.start()
        theirs.close()
        asked = False
        try:
            while True:
                if not asked:
                    asked = self._ask(ours)
                result = self._receive(ours, process)
                asked = False if result.is_over or result.failure else self._ask(ours)
                self._take(result)
                yield
                if result.is_over:
                    return
        finally:
            # What was played ahead is not lost, unless it cannot be had.
            with contextlib.suppress(EOFError, OSError, EnvironmentFailedError):
                if asked:
                    self._take(self._receive(ours, process))
                ours.send(None)
            process.join(5)
            process.kill()
            process.join()
            ours.close()

    def _ask(self, connection: Connection) -> bool:
        """Let some steps be played by the networks as they are now."""
        for theirs, ours in zip(_networks(self._theirs), _networks(self._policy), strict=True):
            with torch.no_grad():
                for old, new in zip(theirs.parameters(), ours.parameters(), strict=True):
                    old.copy_(new)
        with contextlib.suppress(OSError):  # if it died, receiving finds out
            connection.send(self._quantum)
        return True

    def _receive(self, connection: Connection, process: Any) -> Played:
        while not connection.poll(0.2):
            if not process.is_alive() and not connection.poll(0):
                break
        try:
            result = connection.recv()
        except (EOFError, OSError) as error:
            process.join(5)
            raise EnvironmentFailedError(
                f"The process that plays died (exit code {process.exitcode}).",
                "Without --async, and with --workers 1, the environment has a process of its own, "
                "which is replaced when it dies.",
            ) from error
        assert isinstance(result, Played), result
        return result

    def _take(self, result: Played) -> None:
        for env_index, episode in result.episodes:
            self._sink.add(env_index, episode)
        self.unfinished_steps = result.unfinished_steps
        for message in result.messages:
            self._playing.on_message(message)
        if result.failure:
            raise EnvironmentFailedError(*result.failure)


def _networks(policy: Policy) -> list[nn.Module]:
    return [policy.model, policy.behavior] if isinstance(policy, ActorPolicy) else []


def _copied(policy: Policy) -> Policy:
    """The policy with networks of its own, on the CPU, in memory that processes share."""
    if not isinstance(policy, ActorPolicy):
        return policy
    schema = policy.schema
    with fork_rng():  # what is drawn here must not be missing elsewhere
        # Anew, not copied: a model that computes with fewer bits cannot be sent.
        size = ActionCodec(schema.action).size
        model = WorldModel(policy.model.config, schema.obs, size)
    model.load_state_dict(policy.model.state_dict())
    behavior = copy.deepcopy(policy.behavior).cpu()
    for network in (model, behavior):
        network.requires_grad_(False).share_memory()
    return ActorPolicy(model, behavior, schema, sample=policy.sample, seed=policy.seed)


def _never() -> bool:
    return False


def _ignore(_: object) -> None:
    pass


def _serve(
    connection: Connection, plans: Sequence[EpisodePlan], policy: Policy, playing: EnvSetup
) -> None:
    """The life of the process that plays."""
    process_started()
    torch.set_num_threads(1)
    result = Played()
    driver = EpisodeDriver(policy, result, on_message=lambda text: result.messages.append(text))
    rollouts = driver.rollouts(plans, playing.workers, playing.timeout, 1)
    with contextlib.closing(rollouts), contextlib.suppress(EOFError, OSError):
        while (steps := connection.recv()) is not None:
            goal = driver.steps_taken + steps
            try:
                while driver.steps_taken < goal and not result.is_over:
                    result.is_over = next(rollouts, result) is result
            except EnvironmentFailedError as error:
                result.failure = error.message, error.hint
            result.unfinished_steps = driver.unfinished_steps
            connection.send(result)
            result.episodes, result.messages, result.failure = [], [], None
