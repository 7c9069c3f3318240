from __future__ import annotations

import pytest

from api.dispatch.packer import BATCH_COMMANDS_MAX, LINGER_MS_BUSY, LINGER_MS_IDLE, Packer
from streams.core.commands import Complete, Heartbeat


def heartbeat(number: int) -> Heartbeat:
    return Heartbeat(job_id="j", run_id=f"run_j_{number}", lease_token=1)


def test_commands_leave_per_partition_in_order() -> None:
    packer = Packer()
    for number in range(6):
        packer.add(number % 2, heartbeat(number))
    taken = dict(packer.take_all(0))
    assert [[command.run_id for command in taken[p] if isinstance(command, Heartbeat)] for p in (0, 1)] == [
        ["run_j_0", "run_j_2", "run_j_4"],
        ["run_j_1", "run_j_3", "run_j_5"],
    ]
    assert not packer
    assert packer.take_all(1) == []


def test_a_batch_is_full_by_count() -> None:
    packer = Packer()
    filled = [packer.add(0, heartbeat(number)) for number in range(BATCH_COMMANDS_MAX)]
    assert filled.index(True) == BATCH_COMMANDS_MAX - 1
    assert len(packer.take(0)) == BATCH_COMMANDS_MAX
    assert packer.take(0) == ()


def test_a_batch_is_full_by_bytes_and_stays_below_the_brokers_limit() -> None:
    packer = Packer()
    size = 0
    for number in range(100):
        size += 65_536
        if packer.add(0, Complete(job_id="j", run_id=f"run_j_{number}", lease_token=1, result=b"x" * 65_536)):
            break
    assert 256 * 1024 <= size < 512 * 1024


def test_lingers_5_ms_when_idle_and_50_ms_under_load() -> None:
    packer = Packer()
    assert packer.linger_ms() == LINGER_MS_IDLE
    now_ms = 0.0
    for _ in range(30):
        for number in range(500):
            packer.add(0, heartbeat(number))
        now_ms += 50
        packer.take_all(now_ms)
    assert packer.linger_ms() == pytest.approx(LINGER_MS_BUSY, abs=0.5)


def at_rate(per_s: float) -> Packer:
    packer = Packer()
    now_ms = 0.0
    for _ in range(60):
        for _ in range(int(per_s / 20)):
            packer.add(0, heartbeat(1))
        now_ms += 50
        packer.take_all(now_ms)
    return packer


@pytest.mark.parametrize(("per_s", "urgent_ms", "patient_ms"), [(100, 5.6, 14), (500, 7.8, 50), (2_000, 16.25, 50)])
def test_patient_commands_wait_for_company_where_there_is_some(
    per_s: float, urgent_ms: float, patient_ms: float
) -> None:
    packer = at_rate(per_s)
    assert packer.linger_ms() == pytest.approx(urgent_ms, rel=0.05)
    assert packer.linger_ms(patient=True) == pytest.approx(patient_ms, rel=0.05)


def test_a_patient_command_waits_no_longer_than_others_when_idle_and_never_less() -> None:
    assert Packer().linger_ms(patient=True) == LINGER_MS_IDLE
    assert at_rate(10_000).linger_ms(patient=True) == pytest.approx(at_rate(10_000).linger_ms(), rel=0.01)
    assert Packer(0, 0).linger_ms(patient=True) == 0


def test_returns_to_the_idle_linger_after_a_pause() -> None:
    packer = Packer()
    now_ms = 0.0
    for _ in range(30):
        for number in range(500):
            packer.add(0, heartbeat(number))
        now_ms += 50
        packer.take_all(now_ms)
    packer.add(0, heartbeat(1))
    packer.take_all(now_ms + 5000)
    assert packer.linger_ms() == pytest.approx(LINGER_MS_IDLE, abs=0.1)


def test_a_light_load_keeps_the_linger_short() -> None:
    packer = Packer()
    now_ms = 0.0
    for _ in range(50):
        packer.add(0, heartbeat(1))
        now_ms += 10
        packer.take_all(now_ms)
    assert packer.linger_ms() < 7
