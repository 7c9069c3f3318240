"""`horologd demo`: the command; the play itself is loaded only when it is given."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from streams.demo.options import Options
from streams.demo.processes import DemoError

EXIT_FAILED = 1


def add_demo(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def demo(
        for_s: Annotated[
            float | None, typer.Option("--for", min=1, help="Seconds that runs are shown; default: until Ctrl-C.")
        ] = None,
        free_ports: Annotated[bool, typer.Option("--free-ports", help="Choose free ports.")] = False,  # noqa: FBT002 - a flag
        directory: Annotated[Path, typer.Option("--dir", help="Where data and logs are.")] = Path(".horolog/demo"),
    ) -> None:
        """Show everything at work: runs, an owner that is killed, and the checker's verdict. Exit 0 if it is clean."""
        options = Options(for_s=for_s, free_ports=free_ports, directory=directory.resolve())
        try:
            code: int = importlib.import_module("streams.demo.show").run_demo(options)
        except DemoError as error:
            typer.echo(str(error), err=True)
            code = EXIT_FAILED
        raise typer.Exit(code)
