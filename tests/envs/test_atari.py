"""Each rule of the paper, checked against a plain emulator that knows nothing of our code."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")

from ale_py import roms  # noqa: E402

from wmtk.envs import make_env, resolve  # noqa: E402
from wmtk.envs.atari import AtariEnv, find_rom  # noqa: E402
from wmtk.envs.task_options import AtariOptions  # noqa: E402
from wmtk.errors import TaskError  # noqa: E402

# The games of the paper's table, as the published scores spell them.
GAMES = [
    "alien",
    "amidar",
    "assault",
    "asterix",
    "asteroids",
    "atlantis",
    "bank_heist",
    "battle_zone",
    "beam_rider",
    "berzerk",
    "bowling",
    "boxing",
    "breakout",
    "centipede",
    "chopper_command",
    "crazy_climber",
    "demon_attack",
    "double_dunk",
    "enduro",
    "fishing_derby",
    "freeway",
    "frostbite",
    "gopher",
    "gravitar",
    "hero",
    "ice_hockey",
    "james_bond",
    "kangaroo",
    "krull",
    "kung_fu_master",
    "montezuma_revenge",
    "ms_pacman",
    "name_this_game",
    "phoenix",
    "pitfall",
    "pong",
    "private_eye",
    "qbert",
    "riverraid",
    "road_runner",
    "robotank",
    "seaquest",
    "skiing",
    "solaris",
    "space_invaders",
    "star_gunner",
    "tennis",
    "time_pilot",
    "tutankham",
    "up_n_down",
    "venture",
    "video_pinball",
    "wizard_of_wor",
    "yars_revenge",
    "zaxxon",
]


class PlainEmulator:
    """The rules written out in the simplest way, with the seeds that `AtariEnv` draws."""

    def __init__(self, rom: str, seed: int, sticky: float = 0.25) -> None:
        rng, _ = seeding.np_random(seed)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.setInt("random_seed", int(rng.integers(1, 2**31)))
        self.ale.loadROM(roms.get_rom_path(rom))
        self.ale.reset_game()
        self.noops = int(rng.integers(1, 31))
        for _ in range(self.noops):
            self.ale.act(ale_py.Action.NOOP)
        self.first = self.ale.getScreenGrayscale()

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float]:
        """The third and fourth frame, and the sum of the rewards."""
        rewards, frames = [], []
        for _ in range(4):
            rewards.append(self.ale.act(self.ale.getLegalActionSet()[action]))
            frames.append(self.ale.getScreenGrayscale())
        return frames[2], frames[3], float(sum(rewards))


def shrink(screen: np.ndarray) -> np.ndarray:
    through = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
    return cv2.resize(through, (64, 64), interpolation=cv2.INTER_AREA)[..., None]


def alike(obs: np.ndarray, screen: np.ndarray) -> bool:
    """Equal up to OpenCV's rounding of the picture in between: one gray level, rarely."""
    apart = np.abs(obs.astype(int) - shrink(screen))
    return bool(apart.max() <= 1 and (apart > 0).mean() < 0.2)


@pytest.mark.parametrize("rom", ["pong", "breakout", "seaquest"])
def test_frames_rewards_and_ends_equal_a_plain_emulator(rom: str) -> None:
    env, plain = AtariEnv(rom), PlainEmulator(rom, seed=3)
    obs, _ = env.reset(seed=3)
    assert alike(obs, plain.first)
    rng = np.random.default_rng(0)
    pooled = 0
    for _ in range(250):
        action = int(rng.integers(18))
        obs, reward, terminated, truncated, info = env.step(action)
        third, fourth, expected = plain.step(action)
        assert alike(obs, np.maximum(third, fourth))
        pooled += not alike(obs, fourth)
        assert (reward, terminated) == (expected, plain.ale.game_over(with_truncation=False))
        assert not truncated
        assert "lives" not in info
        if terminated:
            break
    assert pooled > 10, "the games chosen must show that pooling matters"


def test_the_options_of_the_paper_reach_the_emulator() -> None:
    env = make_env("atari_pong")
    assert isinstance(env, AtariEnv)
    assert env.ale.getFloat("repeat_action_probability") == 0.25
    assert env.observation_space.shape == (64, 64, 1)
    obs, _ = env.reset(seed=0)
    assert env.action_space.n == 18 == len(env.ale.getLegalActionSet())  # type: ignore[attr-defined]
    assert env.actions == env.ale.getLegalActionSet()
    assert env.get_action_meanings()[:3] == ["NOOP", "FIRE", "UP"]
    assert obs.dtype == np.uint8


def test_minimal_actions_are_those_of_the_game() -> None:
    env = make_env("atari_pong", full_action_space=False)
    assert isinstance(env, AtariEnv)
    assert env.actions == env.ale.getMinimalActionSet()
    assert env.action_space.n == 6  # type: ignore[attr-defined]
    assert env.get_action_meanings()[2] == "RIGHT"


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_sticky_actions_are_the_only_randomness_after_the_noops(sticky: float) -> None:
    def frames(seed: int) -> list[np.ndarray]:
        env = AtariEnv("breakout", AtariOptions(sticky=sticky, noop_max=0))
        env.reset(seed=seed)
        actions = np.random.default_rng(1).integers(18, size=60)
        return [env.step(action)[0] for action in actions]

    same = all((a == b).all() for a, b in zip(frames(1), frames(2), strict=True))
    assert same == (sticky == 0.0)


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_sticky_probability_is_per_frame(sticky: float) -> None:
    # With everything else fixed, the emulator's own state tells whether an action was taken: in
    # Breakout the paddle moves on the first frame of RIGHT exactly if it was not dropped.
    env = AtariEnv("breakout", AtariOptions(sticky=sticky, noop_max=0, repeat=1))
    env.reset(seed=0)
    for _ in range(20):
        env.step(0)
    start, moved = env.ale.cloneState(include_rng=False), []
    before = int(env.ale.getRAM()[70])
    for _ in range(300):
        env.ale.restoreState(start)
        env.ale.act(ale_py.Action.NOOP)
        env.ale.act(ale_py.Action.RIGHT)
        env.ale.act(ale_py.Action.NOOP)  # whatever this one is, the paddle tells about the last
        moved.append(int(env.ale.getRAM()[70]) != before)
    dropped = 1 - np.mean(moved)
    assert abs(dropped - sticky) < 0.08


def test_losing_a_life_ends_nothing_and_the_last_one_does() -> None:
    env = AtariEnv("breakout")
    env.reset(seed=0)
    rng, lost, terminated = np.random.default_rng(0), 0, False
    lives = env.ale.lives()
    while not terminated:
        _, _, terminated, truncated, _ = env.step(rng.integers(18))
        lost += env.ale.lives() < lives
        lives = env.ale.lives()
        assert not truncated
        assert terminated == (lives == 0)
    assert lost == 5
    with pytest.raises(AssertionError, match="reset"):
        env.step(0)


def test_the_last_observation_is_the_last_screen() -> None:
    env, plain = AtariEnv("breakout"), PlainEmulator("breakout", seed=0)
    env.reset(seed=0)
    rng, terminated = np.random.default_rng(0), False
    while not terminated:
        action = rng.integers(18)
        obs, _, terminated, _, _ = env.step(action)
        third, fourth, _ = plain.step(action)
    assert plain.ale.game_over()
    assert alike(obs, np.maximum(third, fourth))


def test_the_time_limit_truncates_on_a_whole_step_and_counts_no_noops() -> None:
    env = AtariEnv("pong", AtariOptions(time_limit=400))
    for _ in range(2):
        env.reset(seed=1)
        ends = [env.step(0)[2:4] for _ in range(100)]
        assert ends == [(False, False)] * 99 + [(False, True)]


@pytest.mark.slow
def test_the_paper_limit_is_27000_steps() -> None:
    env = AtariEnv("montezuma_revenge")  # nothing happens to who stands still
    env.reset(seed=0)
    steps = 1
    while (end := env.step(0)[2:4]) == (False, False):
        steps += 1
    assert (steps, end) == (27_000, (False, True))


def test_noops_are_uniform_over_1_to_30() -> None:
    env = AtariEnv("pong")
    env.reset(seed=0)
    counts = np.zeros(31, int)
    for _ in range(150):
        env.reset()
        counts[env.ale.getEpisodeFrameNumber()] += 1
    assert counts[0] == 0
    assert counts[1] > 0
    assert counts[30] > 0
    expected = 150 / 30
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 52.3  # chi-square, 29 degrees, 0.5%


def test_the_same_seed_gives_the_same_episodes() -> None:
    def episodes() -> list[np.ndarray]:
        env = AtariEnv("pong", AtariOptions(time_limit=80))
        frames = [env.reset(seed=5)[0]]
        for _ in range(2):  # the second episode goes on with the generators of the first
            frames += [env.step(2)[0] for _ in range(20)]
            frames.append(env.reset()[0])
        return frames

    assert all((a == b).all() for a, b in zip(episodes(), episodes(), strict=True))


def test_both_names_are_one_environment() -> None:
    ours, theirs = resolve("atari_pong"), resolve("ALE/Pong-v5")
    assert {**theirs.settings, "task": "atari_pong"} == ours.settings
    assert ours.versions["ale-py"] == ale_py.__version__
    frames = [make_env(task).reset(seed=2)[0] for task in ("atari_pong", "ALE/Pong-v5")]
    assert (frames[0] == frames[1]).all()


def test_color_and_size() -> None:
    env = make_env("atari_pong", rgb=True, size=96)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (96, 96, 3) == env.observation_space.shape
    assert (obs[..., 0] != obs[..., 2]).any()


def test_gymnasium_accepts_it() -> None:
    check_env(AtariEnv("pong"), skip_render_check=True)


def test_the_55_names_are_known() -> None:
    assert len(GAMES) == len({find_rom(f"atari_{game}") for game in GAMES}) == 55
    assert find_rom("atari_james_bond") == find_rom("ALE/Jamesbond-v5") == "jamesbond"


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_game_of_the_paper_plays(game: str) -> None:
    env = make_env(f"atari_{game}")
    obs, _ = env.reset(seed=0)
    frames = [obs] + [env.step(env.action_space.sample())[0] for _ in range(10)]
    assert all(frame.shape == (64, 64, 1) for frame in frames)
    assert max(frame.max() for frame in frames) > 0


@pytest.mark.parametrize(
    ("task", "nearest"),
    [("atari_pongg", "atari_pong"), ("ALE/Pog-v5", "ALE/Pong-v5"), ("atari_mspacmen", "ms_pacman")],
)
def test_wrong_games_get_the_nearest_right_one(task: str, nearest: str) -> None:
    with pytest.raises(TaskError, match=nearest):
        resolve(task)
