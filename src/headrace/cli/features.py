"""The command `headrace features`: the level of each feature of the cluster, shown and moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import Group, connect_by, connection_options, json_option
from headrace.client import admin_cluster
from headrace.client.admin_cluster import FeatureLevels, UpgradeType
from headrace.core.errors import OperatorError
from headrace.metadata.releases import (
    FEATURES,
    HIGHEST_LEVEL,
    default_level,
    feature_dependencies,
    parse_feature,
    parse_release,
    version_mapping,
)
from headrace.metadata.versions import METADATA_VERSION_NAMES

F = TypeVar("F", bound=Callable[..., Any])
METADATA = "metadata.version"


@click.group(cls=Group, help="Describe and change the feature levels of a cluster.")
@connection_options(controller=True)
@json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Keeps the options that stand in front of the sub-command: those of the connection, and `as_json`."""
    context.obj = options


@command.command("describe", help="Describe the features that are on.")
@click.option("--node-id", type=int, metavar="ID", help="Ask this node what it supports.")
@json_option
@click.pass_obj
def describe(options: dict[str, Any], node_id: int | None, as_json: bool) -> int:
    """Levels supported and in force (B-T08)."""
    with connect_by(options) as client:
        features = client.run(admin_cluster.describe_features, node_id=node_id)
    if as_json or options["as_json"]:
        show_json([
            {
                "feature": each.name,
                "supportedMinVersion": each.min_supported,
                "supportedMaxVersion": each.max_supported,
                "finalizedVersionLevel": each.finalized,
                "epoch": each.epoch,
            }
            for each in features
        ])  # fmt: skip
    elif is_terminal():
        rows = [
            (each.name, *(_level(each, n) for n in (each.min_supported, each.max_supported, each.finalized)))
            for each in features
        ]
        show_table(
            f"epoch {features[0].epoch if features else '-'}",
            ("feature", "lowest supported", "highest supported", "in force"),
            rows,
        )
    else:
        print("\n".join(_line(each) for each in features))
    return 0


def _level(feature: FeatureLevels, level: int) -> str:
    if feature.name != METADATA:
        return str(level)
    return METADATA_VERSION_NAMES.get(level, f"UNKNOWN [{level}]")


def _line(each: FeatureLevels) -> str:
    columns = [
        f"Feature: {each.name}".ljust(50),
        f"SupportedMinVersion: {_level(each, each.min_supported)}".ljust(37),
        f"SupportedMaxVersion: {_level(each, each.max_supported)}".ljust(37),
        f"FinalizedVersionLevel: {_level(each, each.finalized)}".ljust(39),
        f"Epoch: {each.epoch if each.epoch >= 0 else '-'}",
    ]
    return " ".join(columns)


def level_options(function: F) -> F:
    """Which features should have which levels."""
    function = json_option(function)
    function = click.option("--dry-run", "is_dry_run", is_flag=True, help="Say what would happen, and change nothing.")(
        function
    )
    function = click.option(
        "--feature", "features", multiple=True, metavar="FEATURE=LEVEL", help="A level; may be repeated."
    )(function)
    function = click.option(
        "--release-version", metavar="RELEASE", help="Set every feature as a release has it, such as 4.0-IV0."
    )(function)
    return click.option(
        "--metadata", metavar="RELEASE", help="(Deprecated) Set metadata.version to that of a release."
    )(function)


@command.command("upgrade", help="Raise feature levels.")
@level_options
@click.pass_obj
def upgrade(
    options: dict[str, Any],
    metadata: str | None,
    release_version: str | None,
    features: tuple[str, ...],
    is_dry_run: bool,
    as_json: bool,
) -> int:
    """Levels go up, all or none (B-T08)."""
    levels = wanted_levels(metadata, release_version, features, kind=UpgradeType.UPGRADE)
    return _update(_said(options, as_json), "upgrade", levels, kind=UpgradeType.UPGRADE, is_dry_run=is_dry_run)


@command.command("downgrade", help="Lower feature levels.")
@level_options
@click.option("--unsafe", is_flag=True, help="Do it even if metadata may be lost for good.")
@click.pass_obj
def downgrade(
    options: dict[str, Any],
    metadata: str | None,
    release_version: str | None,
    features: tuple[str, ...],
    is_dry_run: bool,
    as_json: bool,
    unsafe: bool,
) -> int:
    """Levels go down, where nothing is lost (B-T08)."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = wanted_levels(metadata, release_version, features, kind=kind)
    return _update(_said(options, as_json), "downgrade", levels, kind=kind, is_dry_run=is_dry_run)


@command.command("disable", help="Turn features off: the same as lowering them to level 0.")
@click.option("--feature", "features", multiple=True, metavar="FEATURE", help="A feature; may be repeated.")
@click.option("--unsafe", is_flag=True, help="Do it even if metadata may be lost for good.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Say what would happen, and change nothing.")
@json_option
@click.pass_obj
def disable(options: dict[str, Any], features: tuple[str, ...], unsafe: bool, is_dry_run: bool, as_json: bool) -> int:
    """Features go to level 0 (B-T08)."""
    if len(set(features)) != len(features):
        raise OperatorError(
            f"Feature {next(name for name in features if features.count(name) > 1)} was specified more than once."
        )
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    levels = dict.fromkeys(features, 0)
    return _update(_said(options, as_json), "disable", levels, kind=kind, is_dry_run=is_dry_run)


@command.command("version-mapping", help="Print the feature levels of a release; of the latest without one.")
@click.option("--release-version", metavar="RELEASE", help="Such as 4.0-IV0.")
def mapping(release_version: str | None) -> int:
    """The levels of a release (B-T08)."""
    print("\n".join(version_mapping(release_version)))
    return 0


@command.command("feature-dependencies", help="Print what feature levels need.")
@click.option(
    "--feature", "features", multiple=True, required=True, metavar="FEATURE=LEVEL", help="A level; may be repeated."
)
def dependencies(features: tuple[str, ...]) -> int:
    """What a level needs of other features (B-T08)."""
    levels = dict(parse_feature(each) for each in features)
    for name, level in levels.items():
        if name in HIGHEST_LEVEL and not 0 <= level <= HIGHEST_LEVEL[name]:
            raise OperatorError(f"No feature:{name} with feature level {level}")
    print("\n".join(feature_dependencies(levels)))
    return 0


def wanted_levels(
    metadata: str | None, release: str | None, features: tuple[str, ...], *, kind: UpgradeType
) -> dict[str, int]:
    """Feature levels out of the three ways to give them. An upgrade to a release leaves out what the release has at 0.

    Raises OperatorError.
    """
    if release is not None:
        if metadata is not None or features:
            raise OperatorError("Can not specify `release-version` with other feature flags.")
        level = parse_release(release)
        others = {name: default_level(name, level) for name in FEATURES if name != METADATA}
        is_upgrade = kind is UpgradeType.UPGRADE
        return {METADATA: level, **{name: each for name, each in others.items() if each > 0 or not is_upgrade}}
    levels: dict[str, int] = {}
    if metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA] = parse_release(metadata)
    for each in features:
        name, level = parse_feature(each)
        _check_level(level, kind)
        if name in levels:
            raise OperatorError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _said(options: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """The options of the group, with `--json` from behind the sub-command too."""
    return {**options, "as_json": as_json or options["as_json"]}


def _check_level(level: int, kind: UpgradeType) -> None:
    """What no cluster is asked. Raises OperatorError."""
    if level == 0 and kind is UpgradeType.UPGRADE:
        raise OperatorError(
            "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
            "maxVersionLevel:0 is < 1."
        )
    if level < 0:
        raise OperatorError("Cannot specify a negative version level.")


def _update(options: dict[str, Any], word: str, levels: dict[str, int], *, kind: UpgradeType, is_dry_run: bool) -> int:
    if not levels:
        raise OperatorError(f"You must specify at least one feature to {word}")
    with connect_by(options) as client:
        results = client.run(admin_cluster.update_features, levels, upgrade_type=kind, is_dry_run=is_dry_run)
    failed = {name: error for name, error in results.items() if error is not None}
    if options["as_json"]:
        show_json(
            {
                name: {"level": levels[name], "error": None if error is None else str(error)}
                for name, error in results.items()
            }
        )
    else:
        for name, error in sorted(results.items()):
            what = f"disable {name}" if word == "disable" else f"{word} {name} to {levels[name]}"
            done = "disabled." if word == "disable" else f"{word}d to {levels[name]}."
            if error is not None:
                print(f"{'Can not' if is_dry_run else 'Could not'} {what}. {error}")
            else:
                print(f"{name} {'can be' if is_dry_run else 'was'} {done}")
    if failed:
        raise OperatorError(f"{len(failed)} out of {len(levels)} operation(s) failed.")
    return 0
