"""`horologd`: the server's one program, noun then verb.

Exit codes: 0 ok; 1 a check failed or something went wrong at run time; 2 wrong usage or configuration;
3 something that is required is missing (Java, Maven, a Kafka that answers). Tables are plain when the output
is not a terminal or `NO_COLOR` is set; `--output json` gives one JSON document on standard output and nothing
else there. Errors go to standard error and say what to do next. The scheduler and the gateway are imported
only when they are started, so that everything else stays quick.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict, is_dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from schemas.config import ConfigError, describe, env_name, load_settings
from streams.kafka_dev import (
    HEAP_MB_DEFAULT,
    PORT_DEFAULT,
    KafkaCluster,
    KafkaDevError,
    ToolMissingError,
    find_java,
    resolve_libs,
)
from streams.regions import RegionError, check_regions, fail_over, restore
from streams.topic_admin import (
    KafkaUnreachableError,
    TopicsWrongError,
    check_topics,
    create_topics,
    list_topics,
    repair_topics,
    require_topics_exist,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schemas.config import Settings

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_MISSING = 3

KAFKA_ROOT = Path(".horolog/kafka")


class Output(Enum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file; default HOROLOG_CONFIG, else horolog.toml if it is there."),
]
RootOption = Annotated[Path, typer.Option("--root", help="Directory that the cluster keeps everything in.")]


def _noun(text: str) -> typer.Typer:
    return typer.Typer(help=text, no_args_is_help=True)


app = typer.Typer(
    help="Horolog's server: scheduler, gateway, and the tools around them.",
    epilog="Exit codes: 0 ok, 1 failed check or failure, 2 usage or configuration, 3 something is missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
kafka_app = _noun("A real Kafka on this machine, for development and tests.")
topics_app = _noun("The topics that Horolog keeps everything in.")
regions_app = _noun("Two regions under one Kafka: docs/runbook-regions.md.")
config_app = _noun("The configuration: environment over TOML file over defaults.")
app.add_typer(kafka_app, name="kafka")
app.add_typer(topics_app, name="topics")
app.add_typer(regions_app, name="regions")
app.add_typer(config_app, name="config")


# --- printing -----------------------------------------------------------------------------------------


def _plain() -> bool:
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))


def _as_json(rows: Sequence[Any]) -> list[dict[str, Any]]:
    documents = [asdict(row) if is_dataclass(row) and not isinstance(row, type) else dict(row) for row in rows]
    return [{key: str(value) if isinstance(value, Path) else value for key, value in row.items()} for row in documents]


def _print_rows(rows: Sequence[Any], columns: Sequence[str], output: Output) -> None:
    """Print dataclass rows: the named columns as a table, or all their fields as one JSON list."""
    documents = _as_json(rows)
    if output is Output.JSON:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        return
    cells = [["" if row[name] is None else str(row[name]) for name in columns] for row in documents]
    titles = [name.replace("_", " ") for name in columns]
    if _plain():
        # Whole values in columns: a table for people is wrapped to the terminal, a file is not.
        widths = [max(len(line[i]) for line in [titles, *cells]) for i in range(len(titles))]
        for line in [titles, *cells]:
            padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
            sys.stdout.write("  ".join(padded).rstrip() + "\n")
        return
    table = Table(*titles)
    for line in cells:
        table.add_row(*line)
    Console().print(table)


def _say(text: str, output: Output = Output.TABLE) -> None:
    """Tell a person something; with JSON output, standard output belongs to the document."""
    stream = sys.stdout if output is Output.TABLE else sys.stderr
    stream.write(text + "\n")


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")


# --- kafka --------------------------------------------------------------------------------------------

_NODE_COLUMNS = ("node_id", "state", "address", "pid", "rss_mb", "log")


@kafka_app.command("start")
def kafka_start(  # noqa: PLR0917 - one parameter an option
    nodes: Annotated[int, typer.Option(min=1, max=9, help="Brokers; 3 survive the loss of one.")] = 1,
    port: Annotated[
        int, typer.Option(min=1024, max=65500, help="First port; each node takes three from here.")
    ] = PORT_DEFAULT,
    heap_mb: Annotated[int, typer.Option(min=256, max=16384, help="JVM heap of a node, MB.")] = HEAP_MB_DEFAULT,
    regions: Annotated[
        str, typer.Option(help="Two names, as east,west: one broker in each and a witness, every write in both.")
    ] = "",
    root: RootOption = KAFKA_ROOT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start Kafka in the background and return when it answers. The first time, Maven fetches its jars."""
    if regions:
        cluster = KafkaCluster.region_pair(root, _region_pair(regions), ports=port, heap_mb=heap_mb)
    else:
        cluster = KafkaCluster(root, nodes=nodes, ports=port, heap_mb=heap_mb)
    cluster.start()
    _print_rows(cluster.status(), _NODE_COLUMNS, output)
    servers = cluster.bootstrap_servers
    if regions:
        copies = ("topics.replication_factor", "topics.min_insync_replicas")
        wanted = " ".join(f"{env_name(name)}=2" for name in copies)
        _say(f"Topics must be in both regions: export {wanted}", output)
    if servers != load_settings().kafka.bootstrap_servers:
        _say(f"Tell the rest where it is: export {env_name('kafka.bootstrap_servers')}={servers}", output)
    _say(f"Kafka answers at {servers}. Next: horologd topics create", output)


def _region_pair(text: str) -> tuple[str, str]:
    first, _, second = (part.strip() for part in text.partition(","))
    if not first or not second or first == second or "," in second:
        raise typer.BadParameter("give two different names, as east,west", param_hint="--regions")
    return first, second


@kafka_app.command("fetch")
def kafka_fetch() -> None:
    """Look for Java and have Maven fetch Kafka's jars, so that a later start needs no network."""
    java, libs = find_java(), resolve_libs()
    _say(f"Kafka's jars are in {libs}; Java is {java}. Next: horologd kafka start")


@kafka_app.command("stop")
def kafka_stop(
    root: RootOption = KAFKA_ROOT,
    delete_data: Annotated[bool, typer.Option(help="Also remove everything that it keeps.")] = False,  # noqa: FBT002 - typer's way to declare a flag
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop the Kafka that was started here; its data stays unless told otherwise."""
    cluster = KafkaCluster.saved(root)
    if cluster is None:
        _say(f"No Kafka was started in {root}: nothing to stop.", output)
        if output is Output.JSON:
            _print_rows([], _NODE_COLUMNS, output)
        return
    stopped = cluster.stop()
    _say(f"Stopped {stopped} node(s)." if stopped else "Kafka was not running.", output)
    if output is Output.JSON:
        _print_rows(cluster.status(), _NODE_COLUMNS, output)
    if delete_data:
        cluster.delete_data()
        _say(f"Deleted the data in {root}.", output)


@kafka_app.command("status")
def kafka_status(root: RootOption = KAFKA_ROOT, output: OutputOption = Output.TABLE) -> None:
    """Show each node; exit 1 unless every one answers."""
    cluster = KafkaCluster.saved(root)
    rows = cluster.status() if cluster else []
    if rows or output is Output.JSON:
        _print_rows(rows, _NODE_COLUMNS, output)
    if not rows:
        _complain(f"No Kafka was started in {root}. Start one with: horologd kafka start")
    elif any(row.state != "running" for row in rows):
        _complain("Not every node answers. Start the missing ones with: horologd kafka start (same options)")
    if not rows or any(row.state != "running" for row in rows):
        raise typer.Exit(EXIT_FAILED)


# --- topics -------------------------------------------------------------------------------------------

_TOPIC_COLUMNS = ("name", "partitions", "policy", "state", "writer", "meaning")


@topics_app.command("create")
def topics_create(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Create the topics that are missing; those that exist are not touched."""
    rows = create_topics(load_settings(config))
    _print_rows(rows, _TOPIC_COLUMNS, output)
    made = sum(row.state == "created" for row in rows)
    _say(f"Created {made}, {len(rows) - made} existed. Next: horologd topics check", output)


@topics_app.command("check")
def topics_check(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Compare the topics with what is required; exit 1 if the scheduler would refuse them."""
    findings = check_topics(load_settings(config))
    if output is Output.JSON:
        documents = [{**asdict(finding), "sentence": finding.sentence} for finding in findings]
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
    else:
        for finding in findings:
            _say(finding.sentence)
        if not findings:
            _say("Every topic is as required.")
    if findings:
        raise typer.Exit(EXIT_FAILED)


@topics_app.command("repair")
def topics_repair(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Set the properties that topics check finds wrong; exit 1 if something else is still wrong."""
    settings = load_settings(config)
    changed = repair_topics(settings)
    _print_rows(changed, ("topic", "setting", "found", "expected"), output)
    left = check_topics(settings)
    for finding in left:
        _complain(finding.sentence)
    if left:
        raise typer.Exit(EXIT_FAILED)
    _say(f"Changed {len(changed)} properties; every topic is as required.", output)


@topics_app.command("list")
def topics_list(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show the topics, what they hold and whether they exist."""
    _print_rows(list_topics(load_settings(config)), _TOPIC_COLUMNS, output)


# --- regions ------------------------------------------------------------------------------------------

_CHANGE_COLUMNS = ("topic", "required_before", "required")


@regions_app.command("check")
def regions_check(
    regions: Annotated[str, typer.Option(help="Their names, as east,west; by default the racks that answer.")] = "",
    config: ConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Judge for every topic whether an acknowledged write is in both regions; exit 1 if one need not be."""
    rows = check_regions(load_settings(config), [name for name in regions.split(",") if name])
    _print_rows(rows, ("topic", "required", "replicas", "in_sync", "problem"), output)
    if any(row.problem for row in rows):
        raise typer.Exit(EXIT_FAILED)
    _say("Every acknowledged write is in every region.", output)


@regions_app.command("fail-over")
def regions_fail_over(
    lost: Annotated[str, typer.Option(help="The region that is lost: the broker.rack of its brokers.")],
    config: ConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Go on in the other region: require only the copies that are left. Refused while the lost one answers."""
    changed = fail_over(load_settings(config), lost)
    _print_rows(changed, _CHANGE_COLUMNS, output)
    _say(f"Changed {len(changed)} topics. When {lost} is back: horologd regions restore", output)


@regions_app.command("restore")
def regions_restore(
    wait_seconds: Annotated[float, typer.Option(min=0.0, help="How long to wait for copies to be in sync.")] = 600.0,
    config: ConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Require both regions again, as soon as every copy is in sync."""
    changed = restore(load_settings(config), wait_s=wait_seconds)
    _print_rows(changed, _CHANGE_COLUMNS, output)
    _say(f"Changed {len(changed)} topics. Next: horologd regions check", output)


# --- config -------------------------------------------------------------------------------------------


@config_app.command("show")
def config_show(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show every setting, where its value came from, and what it means. Secrets are masked."""
    rows = describe(load_settings(config))
    _print_rows(rows, ("name", "value", "source", "description"), output)


@config_app.command("check")
def config_check(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Check the configuration without starting anything; exit 2 if it cannot be used."""
    try:
        load_settings(config)
    except ConfigError as error:
        if output is Output.JSON:
            sys.stdout.write(json.dumps({"ok": False, "problems": error.problems}, indent=2) + "\n")
        raise
    if output is Output.JSON:
        sys.stdout.write(json.dumps({"ok": True, "problems": []}, indent=2) + "\n")
    else:
        _say("The configuration is valid. See it with: horologd config show")


# --- the services -------------------------------------------------------------------------------------


def _run_service(module: str, function: str, settings: Settings) -> None:
    run: Callable[[Settings], int] = getattr(importlib.import_module(module), function)
    raise typer.Exit(run(settings))


@app.command()
def scheduler(config: ConfigOption = None) -> None:
    """Run a scheduler: it takes its share of the partitions and fires what is due, until it is told to stop."""
    _run_service("streams.app", "run_scheduler", load_settings(config))


@app.command()
def gateway(config: ConfigOption = None) -> None:
    """Run a gateway: the HTTP side for people, services and workers."""
    settings = load_settings(config)
    require_topics_exist(settings)
    _run_service("api.server", "run_gateway", settings)


if find_spec("streams.preview") is not None:
    importlib.import_module("streams.preview").add_preview(app)
if find_spec("streams.demo") is not None:
    importlib.import_module("streams.demo.command").add_demo(app)


# --- errors -------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with one of the documented codes."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        app(list(arguments), prog_name="horologd")
    except (ToolMissingError, KafkaUnreachableError) as error:
        _complain(str(error))
        return EXIT_MISSING
    except ConfigError as error:
        for problem in error.problems:
            _complain(problem)
        _complain("Fix these and try again; `horologd config show` lists every setting.")
        return EXIT_USAGE
    except (KafkaDevError, RegionError, TopicsWrongError) as error:
        _complain(str(error))
        return EXIT_FAILED
    except KafkaException as error:
        _complain(f"Kafka refused: {error.args[0].str()}. `horologd topics check` shows what differs.")
        return EXIT_FAILED
    except SystemExit as end:  # typer always ends so, with 2 for wrong usage
        return end.code if isinstance(end.code, int) else EXIT_OK
    return EXIT_OK
