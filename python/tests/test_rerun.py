"""The present state in Rerun."""

import pytest
from test_simulation import HOSTS, arm

rerun = pytest.importorskip("rerun")


@pytest.mark.parametrize("host", HOSTS)
def test_a_simulation_is_logged(host, tmp_path):
    import linchpin.rerun

    recording = rerun.RecordingStream("linchpin-test")
    recording.save(tmp_path / "run.rrd")
    sim = arm(host=host)
    for _ in range(3):
        linchpin.rerun.log(sim, recording=recording)
        sim.step(5)
    recording.disconnect()
    assert (tmp_path / "run.rrd").stat().st_size > 1000
