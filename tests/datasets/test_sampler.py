"""Batches: right windows, reproducible, padded, within memory, following the data."""

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from wmtk.datasets import Batch, Dataset, Prefetcher, SequenceSampler, Source, select, split
from wmtk.errors import SchemaMismatchError, UsageError


def assert_windows_are_true(batch: Batch, datasets: list[Dataset], length: int) -> None:
    """Every row of a batch is the row of the episode that it claims to be."""
    for b in range(len(batch.start)):
        dataset = datasets[batch.source[b]]
        position = int(np.flatnonzero(dataset.episodes.episode == batch.episode[b])[0])
        episode = dataset[position]
        start, rows = batch.start[b], int(batch.mask[b].sum())
        assert rows == min(length, episode.length + 1)
        assert start + rows <= episode.length + 1
        assert batch.mask[b, :rows].all()
        arrays = episode.arrays()
        found = {
            **{f"obs/{key}": rows for key, rows in batch.obs.items()},
            "action": batch.action,
            "terminated": batch.terminated,
            "truncated": batch.truncated,
        }
        for path, values in found.items():
            np.testing.assert_array_equal(values[b, :rows], arrays[path][start : start + rows])
            assert not values[b, rows:].any()
        expected = arrays["reward"][start : start + rows].astype(np.float32)
        np.testing.assert_array_equal(batch.reward[b, :rows], expected)
        assert batch.is_first[b].tolist() == [start == 0] + [False] * (length - 1)


@pytest.mark.parametrize("memory", [0, 50_000, 2**30], ids=["no cache", "small", "resident"])
@pytest.mark.parametrize("uniform_over", ["episodes", "steps"])
def test_batches_hold_true_windows(make_dataset, memory, uniform_over) -> None:
    dataset = make_dataset([3, 40, 11, 200, 1])
    dataset.append(dataset[1])
    sampler = SequenceSampler(
        dataset, batch_size=8, length=12, memory=memory, uniform_over=uniform_over
    )
    for _ in range(5):
        assert_windows_are_true(sampler.sample(), [dataset], 12)
    assert sampler.cache.bytes <= memory


def test_a_batch_is_a_function_of_seed_and_step(make_dataset) -> None:
    dataset = make_dataset([30, 40])

    def batch(seed: int, step: int, memory: int = 2**30) -> Batch:
        sampler = SequenceSampler(dataset, batch_size=4, length=8, seed=seed, memory=memory)
        return sampler.sample(step)

    np.testing.assert_array_equal(batch(1, 5).obs["image"], batch(1, 5, memory=0).obs["image"])
    assert (batch(1, 5).start != batch(1, 6).start).any()
    assert (batch(1, 5).start != batch(2, 5).start).any()


def test_the_position_is_saved_and_restored(make_dataset) -> None:
    dataset = make_dataset([30, 40])
    sampler = SequenceSampler(dataset, batch_size=4, length=8, seed=3)
    for _ in range(7):
        sampler.sample()
    state = sampler.state_dict()
    assert state == {"seed": 3, "step": 7, "versions": [2]}
    rest = [sampler.sample().start.tolist() for _ in range(3)]
    again = SequenceSampler(dataset, batch_size=4, length=8, seed=3)
    again.load_state_dict(state)
    assert [again.sample().start.tolist() for _ in range(3)] == rest


def test_episodes_or_steps_are_drawn_uniformly(make_dataset) -> None:
    dataset = make_dataset([9, 89])  # 10 and 90 rows
    draws = {}
    for kind in ("episodes", "steps"):
        sampler = SequenceSampler(dataset, batch_size=500, length=5, uniform_over=kind)  # type: ignore[arg-type]
        draws[kind] = np.mean([sampler.sample(s).episode for s in range(4)])
    assert draws["episodes"] == pytest.approx(0.5, abs=0.05)
    assert draws["steps"] == pytest.approx(0.9, abs=0.03)


def test_the_end_of_an_episode_is_drawn_as_often_as_clipping_implies(make_dataset) -> None:
    dataset = make_dataset([99])  # 100 rows; L = 20: starts 80 to 99 are clipped to 80
    sampler = SequenceSampler(dataset, batch_size=1000, length=20)
    start = np.concatenate([sampler.sample(s).start for s in range(5)])
    assert start.max() == 80
    assert np.mean(start == 80) == pytest.approx(0.20, abs=0.02)
    assert np.mean(start < 40) == pytest.approx(0.40, abs=0.02)


def test_datasets_are_mixed_by_weight(make_dataset) -> None:
    a, b = make_dataset([30], name="a.zarr"), make_dataset([40, 20], name="b.zarr")
    sources = [Source(a, weight=1), Source(b, weight=3)]
    sampler = SequenceSampler(sources, batch_size=400, length=5)
    batch = sampler.sample()
    assert batch.source.mean() == pytest.approx(0.75, abs=0.08)
    assert_windows_are_true(batch, [a, b], 5)


def test_a_selection_is_all_that_is_drawn(make_dataset) -> None:
    dataset = make_dataset([5, 50, 6, 60])
    source = Source(dataset, select=select(min_length=50))
    batch = SequenceSampler(source, batch_size=100, length=5).sample()
    assert set(batch.episode.tolist()) == {1, 3}
    train = Source(dataset, select=split(0.5, held_out=False))
    held = Source(dataset, select=split(0.5, held_out=True))
    seen = [
        set(SequenceSampler(source, batch_size=100, length=5).sample().episode.tolist())
        for source in (train, held)
    ]
    assert seen[0].isdisjoint(seen[1])
    assert seen[0] | seen[1] == {0, 1, 2, 3}


def test_info_is_read_when_requested(make_dataset) -> None:
    dataset = make_dataset([20])
    assert SequenceSampler(dataset, batch_size=2, length=5).sample().info == {}
    batch = SequenceSampler(dataset, batch_size=2, length=5, info=["ball"]).sample()
    row = batch.start[0]
    np.testing.assert_array_equal(batch.info["ball"][0], dataset[0].info["ball"][row : row + 5])
    with pytest.raises(UsageError, match=r"They hold: \['ball'\]"):
        SequenceSampler(dataset, batch_size=2, length=5, info=["paddle"])


def test_a_sampler_follows_growth_eviction_and_compaction(make_dataset, make_episode) -> None:
    writer = make_dataset([20] * 6)
    reader = Dataset.open(writer.path)
    sampler = SequenceSampler(reader, batch_size=64, length=10, memory=0)
    assert set(sampler.sample().episode.tolist()) == set(range(6))
    writer.append(make_episode(20, seed=6))
    writer.evict(60)
    writer.compact()
    batch = sampler.sample()  # the old parts are gone: drawn again from the newest version
    assert batch.versions == (writer.version,)
    assert set(batch.episode.tolist()) == {4, 5, 6}
    assert_windows_are_true(batch, [reader], 10)


def test_prefetched_batches_are_the_sampler_s_own(make_dataset, make_episode) -> None:
    dataset = make_dataset([30, 40])
    plain = SequenceSampler(dataset, batch_size=4, length=8)
    expected = [plain.sample().start.tolist() for _ in range(10)]
    sampler = SequenceSampler(dataset, batch_size=4, length=8)
    with Prefetcher(sampler, depth=3, threads=2) as batches:
        assert [next(batches).start.tolist() for _ in range(6)] == expected[:6]
        assert sampler.state_dict()["step"] == 6
        sampler.load_state_dict({"seed": 0, "step": 2})
        assert next(batches).start.tolist() == expected[2]
        dataset.append(make_episode(50, seed=9))
        sampler.refresh()
        batch = next(batches)
    assert batch.versions == (3,)
    assert batch.step == 3


def test_parts_are_opened_by_others_while_a_sampler_is_refreshed(
    make_dataset, make_episode
) -> None:
    dataset = make_dataset([3])
    sampler = SequenceSampler(dataset, batch_size=1, length=2)
    sampler.sample()
    parts = sampler._snapshot.parts
    (reader,) = parts.readers.values()
    parts.readers.update((str(number), reader) for number in range(100_000))  # many parts
    dataset.append(make_episode(3, seed=1))
    done = threading.Event()

    def open_parts() -> None:
        for number in itertools.takewhile(lambda _: not done.is_set(), itertools.count(100_000)):
            parts.readers[str(number)] = reader

    before = sys.getswitchinterval()
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_parts)
        sys.setswitchinterval(1e-5)
        try:
            assert sampler.refresh()
        finally:
            sys.setswitchinterval(before)
            done.set()
        opening.result()
    assert sampler.sample().versions == (2,)


def test_an_error_in_a_background_thread_reaches_the_caller(make_dataset) -> None:
    dataset = make_dataset([30])
    for file in dataset.path.glob("parts/*/obs/image/c*"):
        file.write_bytes(b"")
    with (
        Prefetcher(SequenceSampler(dataset, batch_size=2, length=5)) as batches,
        pytest.raises(Exception, match="has 0 bytes"),
    ):
        next(batches)


def test_what_cannot_be_sampled_is_refused(make_dataset, schema, tmp_path) -> None:
    empty = make_dataset([], name="empty.zarr")
    with pytest.raises(UsageError, match="no episode to sample"):
        SequenceSampler(empty, batch_size=2, length=5)
    other = Dataset.create(
        tmp_path / "other", type(schema)({"image": schema.obs["image"]}, schema.action)
    )
    dataset = make_dataset([5])
    with pytest.raises(SchemaMismatchError, match="robot/pos"):
        SequenceSampler([dataset, other], batch_size=2, length=5)
