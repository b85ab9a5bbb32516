"""A trained actor at play: observations in, actions out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.batch_tensors import ActionCodec, to_tensor
from wmtk.datasets import Schema
from wmtk.errors import SchemaMismatchError
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel
from wmtk.observations import ObsCodec
from wmtk.runs.state_dict import load_rng_state, rng_state
from wmtk.spaces import flatten_value

Observation = Mapping[str, NDArray[Any]]  # leaves by key


class ActorPolicy:
    """Follows what happens in several environments, each in a slot, and acts in them.

    It keeps to the protocol of wmtk.collecting.Policy. Called with one observation it acts in a
    single environment; `begin` says that an episode starts. Its random numbers are its own:
    acting does not change what training draws. Both networks are looked at as they are at the
    moment, also while they are being trained.
    """

    needs_obs = True

    def __init__(
        self,
        model: WorldModel,
        behavior: ActorCritic,
        schema: Schema,
        *,
        observations: ObsCodec | None = None,
        sample: bool = True,
        seed: Sequence[int] = (0,),
        name: str = "actor",
        checkpoint: str = "",
    ) -> None:
        self.model, self.behavior = model, behavior
        self.observations = observations or ObsCodec(schema.obs)
        self.schema = schema.only(self.observations.sources)
        self.sample = sample  # whether actions are drawn; states always are
        self.name, self.checkpoint = name, checkpoint
        self.seed = tuple(seed)
        self._codec = ActionCodec(schema.action)
        self._device = next(model.parameters()).device
        self._state = model.rssm.initial(0)  # (slots, …)
        self._action = torch.zeros(0, self._codec.size, device=self._device)  # the last ones
        self._is_first = torch.zeros(0, dtype=torch.bool, device=self._device)
        with _preserved_randomness():
            torch.manual_seed(int(np.random.SeedSequence(list(seed)).generate_state(1)[0]))
            self._random = rng_state()

    def __repr__(self) -> str:
        return (
            f"ActorPolicy({self.name!r}, sample={self.sample}, seed={self.seed}, "
            f"{self.schema.spaces}, device='{self._device}')"
        )

    def begin(self, slot: int = 0) -> None:
        """A new episode has begun in a slot."""
        self._make_room(slot + 1)
        self._is_first[slot] = True

    def __call__(self, obs: Any) -> NDArray[Any]:
        """The action after one more observation of the environment, as it returned it."""
        assert self.schema.structure is not None
        return self.act([0], [flatten_value(self.schema.structure, obs)])[0]

    def states(self, slots: Sequence[int]) -> State:
        """Where the model takes the environments to be, (N, …), after their last observations."""
        return State(*(part[list(slots)] for part in self._state))

    @torch.no_grad()
    def act(self, slots: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        """An action for each of the slots, after one more observation in each."""
        self._make_room(max(slots) + 1)
        rows = torch.tensor(slots, device=self._device)
        seen = {key: self._stacked(key, obs) for key in self.schema.obs}
        before = State(*(part[rows] for part in self._state))
        with _preserved_randomness():
            load_rng_state(self._random)
            embed = self.model.encode(seen)[:, 0]
            state = self.model.rssm.observe_step(
                before, self._action[rows], embed, self._is_first[rows]
            )
            action = self.behavior.act(state.feat, sample=self.sample)
            self._random = rng_state()
        for kept, new in zip(self._state, state, strict=True):
            kept[rows] = new
        self._action[rows] = action
        self._is_first[rows] = False
        return list(self._codec.decode(action))

    def _stacked(self, key: str, obs: Sequence[Observation]) -> Tensor:
        """One key of all observations, (B, 1, …)."""
        spec = self.schema.obs[key]
        for one in obs:
            if key not in one or np.shape(one[key]) != spec.shape:
                found = np.shape(one[key]) if key in one else "nothing"
                raise SchemaMismatchError(
                    f"The actor sees {key!r} of shape {spec.shape}, not {found}.",
                    "It acts in the task that its model was trained on, with the same options.",
                )
        rows = np.stack([np.asarray(one[key], spec.dtype) for one in obs])
        return to_tensor(self.observations.rows(key, rows), self._device).unsqueeze(1)

    def _make_room(self, slots: int) -> None:
        more = slots - len(self._is_first)
        if more <= 0:
            return
        added = self.model.rssm.initial(more)
        self._state = State(*(torch.cat(pair) for pair in zip(self._state, added, strict=True)))
        self._action = torch.cat([self._action, self._action.new_zeros(more, self._codec.size)])
        self._is_first = torch.cat([self._is_first, self._is_first.new_ones(more)])


@contextmanager
def _preserved_randomness() -> Iterator[None]:
    """Within, random numbers may be drawn that nobody else misses."""
    before = rng_state()
    try:
        yield
    finally:
        load_rng_state(before)
