import xml.etree.ElementTree as ElementTree

import pytest

from borealis_py.demo.picture import (
    KINDS,
    MARKED,
    STATES,
    UNMARKED,
    Band,
    Cell,
    PicturedJob,
    PicturePanel,
    PicturePoint,
    Span,
    Strip,
    Timeline,
    draw,
    spans,
    ticks,
)

SVG = "{http://www.w3.org/2000/svg}"


def timeline(**changes: object) -> Timeline:
    band = Band(
        "replica <0>",
        (Span("STABLE", 0.0, 20.0), Span("UPSTREAM_FAILURE", 20.0, 30.0), Span("STABILIZATION", 30.0, 31.0)),
        (PicturedJob(30.1, 30.8, 1400, "spark"), PicturedJob(30.8, 30.9, 20, "inline")),
    )
    points = (
        PicturePoint(1.0, 0.0, "STABLE"),
        PicturePoint(20.0, 2.9, "TENTATIVE"),
        PicturePoint(21.0, -0.01, "TENTATIVE"),
    )
    values: dict[str, object] = {
        "title": "LGA & friends",
        "panels": (PicturePanel("carrier_delays", points, (band, band)), PicturePanel("very_late", (), (band,))),
        "threshold_s": 3.0,
        "source": "LGA",
        "failure": (19.9, 34.9),
        "end_s": 60.0,
        **changes,
    }
    return Timeline(**values)  # type: ignore[arg-type]


def test_it_is_well_formed_and_has_every_bucket_in_its_colour() -> None:
    root = ElementTree.fromstring(draw(timeline()))
    dots = [(g.get("fill"), len(g.findall(f"{SVG}circle"))) for g in root.iter(f"{SVG}g")]
    assert dots == [(KINDS["STABLE"], 1), (KINDS["TENTATIVE"], 2), (KINDS["STABLE"], 0), (KINDS["TENTATIVE"], 0)]
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"LGA & friends", "carrier_delays", "very_late", "seconds since T0", "threshold X = 3 s"} <= set(texts)
    assert texts.count("replica <0>") == 3


def test_everything_lies_inside_the_picture() -> None:
    late = (PicturePoint(70.0, 9.0, "STABLE"), PicturePoint(-1.0, 0.0, "STABLE"))
    root = ElementTree.fromstring(draw(timeline(panels=(PicturePanel("q", late, ()),))))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "-1")) <= width
        assert 0 <= float(circle.get("cy", "-1")) <= height
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", "0")) + float(rect.get("width", "-1")) <= width
        assert float(rect.get("y", "0")) + float(rect.get("height", "-1")) <= height


def test_states_are_coloured_bands_and_spark_jobs_are_marked() -> None:
    root = ElementTree.fromstring(draw(timeline()))
    tips = {r.findtext(f"{SVG}title"): r.get("fill") for r in root.iter(f"{SVG}rect")}
    assert tips["replica <0> UPSTREAM_FAILURE, 20.00 s to 30.00 s"] == STATES["UPSTREAM_FAILURE"]
    assert any("redo on Spark: 1400 rows" in tip for tip in tips if tip)
    assert not any("inline" in tip for tip in tips if tip)


def test_a_strip_lies_below_the_bands_and_is_explained_once() -> None:
    strip = Strip(
        "visibility", "visibility < 3 miles", (Cell(1.0, 1.1, True, "0.5 miles"), Cell(2.0, 2.1, False, "10 miles"))
    )
    band = Band("replica 0", (Span("STABLE", 0.0, 20.0),))
    root = ElementTree.fromstring(draw(timeline(panels=(PicturePanel("q", (), (band, band), strip),))))
    cells = {r.findtext(f"{SVG}title"): r for r in root.iter(f"{SVG}rect")}
    assert [cells[tip].get("fill") for tip in ("0.5 miles", "10 miles")] == [MARKED, UNMARKED]
    bands = [float(r.get("y", "0")) for tip, r in cells.items() if tip and tip.startswith("replica 0")]
    assert float(cells["10 miles"].get("y", "0")) > max(bands)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert texts.count("visibility") == texts.count("visibility < 3 miles") == 1
    axis = next(float(t.get("y", "0")) for t in root.iter(f"{SVG}text") if t.text == "seconds since T0")
    assert float(cells["10 miles"].get("y", "0")) + 20 < axis


def test_changes_of_state_become_spans() -> None:
    changes = [(5.0, "STABILIZATION"), (0.0, "STABLE"), (2.0, "STABLE"), (3.0, "UPSTREAM_FAILURE")]
    assert spans(changes, 6.0) == (
        Span("STABLE", 0.0, 3.0),
        Span("UPSTREAM_FAILURE", 3.0, 5.0),
        Span("STABILIZATION", 5.0, 6.0),
    )
    assert spans([], 6.0) == ()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 3.36, [0.0, 1.0, 2.0, 3.0]),
        (-0.12, 0.9, [0.0, 0.5]),
        (0.0, 60.0, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0]),
        (1.0, 1.0, [1.0]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 12 if high == 60.0 else 5 if high > 1 else 3) == expected
