"""Settings: changing them by name, and what a wrong name or value is answered with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wmtk.config import Config, nearest
from wmtk.errors import ConfigError


class Engine(Config):
    power: int = 3
    oil_level: float = 0.5


class Car(Config):
    engine: Engine = Engine()
    doors: int = 4


def test_a_setting_is_changed_by_its_dotted_name() -> None:
    car = Car().override({"engine.power": 7})
    assert (car.engine.power, car.engine.oil_level, car.doors) == (7, 0.5, 4)
    assert Car().diff(car) == {"engine.power": (3, 7)}
    assert car.diff(car) == {}


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("engine.powr", "'engine.power'"),
        ("oil_level", "'engine.oil_level'"),  # without what it is part of
        ("motor.power", "'engine.power'"),
        ("dors", "'doors'"),
        ("doors.left", "There are: engine.*, doors."),
        ("engine.x", "There are: engine.power, engine.oil_level."),
    ],
)
def test_a_wrong_name_gets_the_nearest_right_ones(name, suggestion) -> None:
    with pytest.raises(ConfigError, match=f"no setting '{name}'") as caught:
        Car().override({name: 1})
    assert suggestion in caught.value.hint


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(ConfigError, match=r"engine\.power = 'much': Input should be a valid int"):
        Car().override({"engine.power": "much"})


def test_nothing_near_is_no_suggestion() -> None:
    assert nearest("xyzzy", ["engine.power", "doors"]) == ""


@pytest.mark.parametrize("package", ["torch", "safetensors"])
def test_without_a_package_it_says_what_to_install(package) -> None:
    module = "wmtk.training.presets"
    code = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from wmtk.errors import MissingDependencyError\n"
        f"try: import {module}\n"
        "except MissingDependencyError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs the package '{package}'" in done.stdout
    assert "pip install 'wmtk[train]'" in done.stdout
