"""Reads a recipe: YAML file, then key=value overrides, into typed settings."""

import typing
from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

Settings = TypeVar("Settings")
# Groups of keys that only one script's recipes have.
GROUP_OF = {"graph": "train_ras.py", "prompt": "train_tri_rag.py"}


class ConfigError(ValueError):
    """A recipe that cannot be used; the message names file or override, key and expected type."""


def load_config(
    settings_type: type[Settings],
    path: str | Path,
    overrides: Sequence[str] = (),
    open_keys: Sequence[str] = (),
) -> Settings:
    """Read a recipe.

    Args:
        settings_type: dataclass with the recipe's keys, types and defaults.
        path: YAML file.
        overrides: ``key=value`` with dots between levels; they win over the file.
        open_keys: required texts that may be left out, and are then empty.

    Raises:
        ConfigError: unreadable file, unknown key, value of another type, or a required value
            that neither the file nor an override gives.
    """
    config = OmegaConf.structured(settings_type)
    config = _merged(settings_type, config, _read_yaml(Path(path)), str(path))
    for override in overrides:
        config = _merged(settings_type, config, _read_override(override), f"override {override!r}")
    for key in OmegaConf.missing_keys(config) & set(open_keys):
        OmegaConf.update(config, key, "")
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        wanted = ", ".join(f"{key} ({expected_type(settings_type, key)})" for key in missing)
        raise ConfigError(
            f"{path}: no value for {wanted}. Add it to the file or to the command: {missing[0]}=..."
        )
    return typing.cast(Settings, OmegaConf.to_object(config))


def expected_type(settings_type: type, dotted_key: str) -> str:
    """Type of a key in words, such as ``int`` or ``linear|cosine|constant``.

    Raises:
        KeyError: the settings have no such key.
    """
    kind: Any = settings_type
    for name in dotted_key.split("."):
        kind = typing.get_type_hints(kind)[name] if is_dataclass(kind) else None
        if kind is None:
            raise KeyError(dotted_key)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(member.name for member in kind)
    if is_dataclass(kind):
        return "a group of keys"
    if typing.get_origin(kind) is None:
        return str(kind.__name__)
    return str(kind).replace("None", "null").replace(" | ", " or ")


def known_keys(settings_type: type, prefix: str = "") -> list[str]:
    """Every dotted key of the settings, leaves only, in declaration order."""
    keys: list[str] = []
    for name, kind in typing.get_type_hints(settings_type).items():
        if isinstance(kind, type) and is_dataclass(kind):
            keys.extend(known_keys(kind, f"{prefix}{name}."))
        else:
            keys.append(prefix + name)
    return keys


def _read_yaml(path: Path) -> Any:
    try:
        return OmegaConf.create(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error


def _read_override(override: str) -> DictConfig:
    if "=" not in override:
        raise ConfigError(f"override {override!r}: write it as key=value, such as train.seed=1")
    try:
        return OmegaConf.from_dotlist([override])
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"override {override!r}: {error}") from error


def _merged(settings_type: type, config: DictConfig, layer: Any, where: str) -> DictConfig:
    if not isinstance(layer, DictConfig):
        raise ConfigError(f"{where}: a recipe is a mapping of keys, not a list or a single value")
    try:
        return typing.cast(DictConfig, OmegaConf.merge(config, layer))
    except ConfigKeyError as error:
        group = str(error.full_key).rpartition(".")[0]
        known = [key for key in known_keys(settings_type) if key.startswith(group)]
        if isinstance(layer, DictConfig) and (script := _script_of(layer)) and not group:
            raise ConfigError(f"{where}: is a recipe for {script}") from error
        raise ConfigError(
            f"{where}: unknown key {error.full_key!r}. Known here: {', '.join(known)}"
        ) from error
    except OmegaConfBaseException as error:
        key = str(error.full_key or "").partition("[")[0]
        problem = str(error).splitlines()[0]
        raise ConfigError(_type_problem(settings_type, where, key, problem)) from error


def _script_of(layer: DictConfig) -> str:
    """The script that a whole recipe is for, where its groups of keys tell."""
    # Not `in layer`: a key whose value is still to be given does not count there.
    keys = list(layer.keys())
    if "output_dir" not in keys:
        return ""
    return next((script for group, script in GROUP_OF.items() if group in keys), "")


def _type_problem(settings_type: type, where: str, key: str, problem: str) -> str:
    # OmegaConf names no key when a value stands where a group of keys belongs.
    if not key:
        return f"{where}: a single value stands where a group of keys belongs: {problem}"
    return f"{where}: key {key!r} must be {expected_type(settings_type, key)}: {problem}"
