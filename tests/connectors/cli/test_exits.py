"""Exit codes and the words of every error."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any

import pytest

from horolog import cli
from horolog._cli.screen import Screen, last_line
from horolog._cli.session import Session
from horolog.testing import FakeGateway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Horolog = Callable[..., Awaitable[Any]]


async def test_not_found_is_4(horolog: Horolog) -> None:
    said = await horolog("jobs", "show", "nope")

    assert (said.code, said.out) == (4, "")
    assert "[job_not_found]" in said.err
    assert "horolog jobs list" in said.err


async def test_a_name_in_the_place_of_an_id_is_told_apart(horolog: Horolog) -> None:
    await horolog("jobs", "create", "rollup", "--every", "1h")

    said = await horolog("jobs", "pause", "rollup")

    assert said.code == 4
    assert "its id, not its name" in said.err


@pytest.mark.parametrize(
    ("arguments", "help_of"),
    [
        ((), "horolog"),
        (("jobs",), "horolog jobs"),
        (("jobs", "shw"), "horolog jobs"),
        (("jobs", "create", "x", "--lane", "hi"), "horolog jobs create"),
        (("runs", "list", "--limit", "many"), "horolog runs list"),
    ],
)
async def test_a_wrong_command_line_is_2_and_says_where_to_read_on(
    horolog: Horolog, arguments: tuple[str, ...], help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = await horolog(*arguments)

    assert said.code == 2
    assert f"See `{help_of} --help`." in said.err + capsys.readouterr().err


async def test_every_backoff_of_the_contract_can_be_chosen(horolog: Horolog) -> None:
    for backoff in ("exponential", "fixed", "none"):
        made = await horolog("jobs", "create", "x", "--id", backoff, "--every", "1h", "--backoff", backoff)
        shown = await horolog("jobs", "show", backoff, "-o", "json")
        assert (made.code, shown.json["retry"]["backoff"]) == (0, backoff)


async def test_a_version_that_is_not_current_is_5(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")

    said = await horolog("jobs", "edit", "x", "--lane", "low", "--version", "7")

    assert said.code == 5
    assert "horolog jobs show" in said.err


async def test_a_job_that_exists_is_5(horolog: Horolog) -> None:
    await horolog("jobs", "create", "x", "--id", "x", "--every", "1h")

    said = await horolog("jobs", "create", "x", "--id", "x", "--every", "2h")

    assert said.code == 5
    assert "horolog jobs edit" in said.err


async def test_a_definition_that_the_gateway_refuses_is_2_and_names_the_field(horolog: Horolog) -> None:
    said = await horolog("jobs", "create", "x", "--cron", "61 * * * *")

    assert said.code == 2
    assert said.err.startswith("schedule.cron: ")


async def test_nobody_listening_is_3_at_once(horolog: Horolog, gateway: FakeGateway) -> None:
    await gateway.stop()

    said = await horolog("jobs", "list")

    assert said.code == 3
    assert f"No gateway answers at {gateway.url}" in said.err
    assert "HOROLOG_URL" in said.err


async def test_a_gateway_that_cannot_answer_just_now_is_asked_again(horolog: Horolog, gateway: FakeGateway) -> None:
    gateway.refuse("jobs", status=503, code="no_owner", times=2)

    said = await horolog("jobs", "list")

    assert said.code == 0
    assert gateway.count("jobs") == 3


async def test_a_defect_of_the_gateway_is_1_and_not_asked_again(horolog: Horolog, gateway: FakeGateway) -> None:
    gateway.refuse("jobs", status=500, code="internal")

    said = await horolog("jobs", "list")

    assert said.code == 1
    assert "gateway's log" in said.err
    assert gateway.count("jobs") == 1


async def test_a_rate_limit_is_1_and_says_when(horolog: Horolog, gateway: FakeGateway) -> None:
    gateway.refuse("jobs", status=429, code="rate_limited", retry_after_seconds=7)

    said = await horolog("jobs", "list")

    assert said.code == 1
    assert "Repeat after 7 s." in said.err


async def test_a_missing_token_is_1_and_says_how_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeGateway(tokens={"secret": "default"}) as gateway:
        wrong = await _in_thread(("jobs", "list", "--url", gateway.url), {})
        said = capsys.readouterr()
        right = await _in_thread(("jobs", "list", "--url", gateway.url), {"HOROLOG_TOKEN": "secret"})
        also = await _in_thread(("--token", "secret", "jobs", "list", "--url", gateway.url), {})

    assert (wrong, right, also) == (1, 0, 0)
    assert "HOROLOG_TOKEN" in said.err


async def _in_thread(arguments: tuple[str, ...], environment: dict[str, str]) -> int:
    return await asyncio.to_thread(cli.run, arguments, environment=environment)


async def test_a_url_that_is_none_is_2(horolog: Horolog) -> None:
    said = await horolog("jobs", "list", "--url", "localhost:8080")

    assert said.code == 2
    assert "http" in said.err


async def test_a_route_that_the_gateway_does_not_have_is_4(horolog: Horolog, gateway: FakeGateway) -> None:
    gateway.refuse("runs", status=404, code="unknown_route")

    said = await horolog("runs", "list", "--queue", "billing")

    assert said.code == 4
    assert "older than this command" in said.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_styles_are_for_terminals_without_no_color() -> None:
    for out, environment, styled in (
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (io.StringIO(), {}, False),
    ):
        Screen(out, io.StringIO(), environment).table(("A",), [("b",)])
        assert ("\x1b[" in out.getvalue()) is styled
        assert "b" in out.getvalue()


def test_a_terminal_is_cleared_between_pictures_and_a_file_is_not() -> None:
    for out, between in ((Terminal(), "\x1b[H\x1b[2J"), (io.StringIO(), "---\n")):
        Screen(out, io.StringIO(), {}).clear()
        assert out.getvalue() == between


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    out = io.StringIO()
    Screen(out, io.StringIO(), {}).table(("A", "LONG"), [("xyz", 1), (None, "y")])

    assert out.getvalue() == "A    LONG\nxyz  1\n     y\n"


def test_fields_leave_out_what_is_not_there() -> None:
    out = io.StringIO()
    Screen(out, io.StringIO(), {}).fields([("a", None), ("bcd", [1]), ("e", "x"), ("f", {}), ("g", 0)])

    assert out.getvalue() == "bcd  [1]\ne    x\ng    0\n"


def test_of_a_traceback_the_last_line_is_shown() -> None:
    assert last_line("Traceback:\n  x\nValueError: no\n") == "ValueError: no"
    assert last_line("x" * 100, 10) == "x" * 7 + "..."
    assert last_line(None) == ""


def test_a_session_that_never_called_closes() -> None:
    session = Session(Screen(io.StringIO(), io.StringIO(), {}), "http://127.0.0.1:1")
    session.close()

    assert session.as_json is False
