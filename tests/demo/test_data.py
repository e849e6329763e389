import csv
import zipfile
from pathlib import Path

import pytest

from borealis_py.demo import data

HEADER = "year,month,day,sched_dep_time,dep_delay,carrier,flight,tailnum,origin,dest"


def archive(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("flights.csv", "\n".join([HEADER, *lines, ""]))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_sixty_days_are_the_known_rows(tmp_path: Path) -> None:
    counts = data.write_sources(tmp_path / "new")
    assert counts == {"ewr": 19_351, "jfk": 17_898, "lga": 15_664}
    assert sum(counts.values()) == 52_913
    scheds = [row["sched"] for row in read(tmp_path / "new" / "lga.csv")]
    assert len(scheds) == 15_664
    assert scheds == sorted(scheds)
    assert (scheds[0], scheds[-1][:10]) == ("2013-01-01T05:29", "2013-03-01")


def test_flights_of_one_minute_keep_their_order_and_a_cancelled_one_has_no_delay(tmp_path: Path) -> None:
    source = archive(
        tmp_path,
        "2013,1,1,1205,7,UA,1,N1,EWR,ORD",
        "2013,1,1,540,-3,AA,2,N2,EWR,MIA",
        "2013,1,1,1205,,B6,3,,EWR,BQN",
        "2013,1,1,1205,121.0,DL,4,N4,EWR,ATL",
        "2013,1,2,0005,1,DL,5,N5,JFK,ATL",
    )
    assert data.write_sources(tmp_path, days=1, archive=source) == {"ewr": 4, "jfk": 0, "lga": 0}
    rows = read(tmp_path / "ewr.csv")
    assert [row["flight"] for row in rows] == ["2", "1", "3", "4"]
    assert [row["dep_delay"] for row in rows] == ["-3", "7", "", "121.0"]
    assert rows[0]["sched"] == "2013-01-01T05:40"


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = archive(tmp_path, "2013,1,1,540,-3,AA,2,N2,EWR,MIA")
    folder = tmp_path / "data"
    data.write_sources(folder, days=1, archive=source)
    before = (folder / "ewr.csv").read_bytes()

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(data.os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        data.write_sources(folder, days=1, archive=source)
    assert (folder / "ewr.csv").read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == ["ewr.csv", "jfk.csv", "lga.csv"]


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "find_spec", lambda _: None)
    with pytest.raises(data.DemoDataError, match=r"pip install 'borealis-py\[demo\]'"):
        data.flights_archive()


@pytest.mark.parametrize("days", [0, 366])
def test_days_out_of_range_are_refused(tmp_path: Path, days: int) -> None:
    with pytest.raises(data.DemoDataError, match="1 to 365"):
        data.write_sources(tmp_path, days=days)


def test_a_day_takes_a_second() -> None:
    t0 = 1_700_000_000_000_000
    assert data.stime_us("2013-01-01T00:00", t0) == t0
    assert data.stime_us("2013-01-02T00:00", t0) == t0 + 1_000_000
    assert data.stime_us("2013-01-01T00:01", t0) == t0 + 694  # 694.4, rounded down
