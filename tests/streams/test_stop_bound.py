"""A process that has given everything up ends, also where a client never comes back from closing."""

from __future__ import annotations

import threading

import pytest

from streams.stop_bound import StopBound

WAIT_S = 60.0


@pytest.mark.parametrize("code", [0, 1])
def test_a_process_that_does_not_close_in_time_is_ended_with_its_code(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    StopBound(close_max_s=0.01, end=end).begin(code)
    assert ended.wait(WAIT_S)
    assert codes == [code]
    assert "closing connections took over 0.01 s after all partitions were given up" in capsys.readouterr().err


def test_one_that_closes_in_time_ends_by_itself() -> None:
    codes: list[int] = []
    bound = StopBound(close_max_s=WAIT_S, end=codes.append)
    bound.begin(0)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "horolog-stop-bound"]
    bound.done()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert codes == []
