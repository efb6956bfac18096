//! Curves and bars as SVG: pure.
//!
//! Colours come from the page's style by class, so that one drawing serves light and dark.

use maud::{Markup, html};

/// A curve, by ascending x. Both coordinates are above 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Curves on logarithmic axes.
pub(super) struct Chart<'a> {
    /// Read to those who do not see it.
    pub(super) description: &'a str,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    pub(super) x_text: fn(f64) -> String,
    pub(super) y_text: fn(f64) -> String,
    pub(super) series: &'a [Series],
}

/// Colours and marks that the style knows; more series than these begin again.
const STYLES: usize = 8;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;
/// Labels of the x axis stand at least so far apart.
const LABEL_WIDTH: f64 = 46.0;

/// A logarithmic axis from one place of the drawing to another.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// One that holds every value.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if low >= high {
            (low, high) = (low / 2.0, low * 2.0);
        }
        Axis { low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + part * (self.to - self.from)
    }
}

/// Round numbers from `low` to `high`, at most eight: 1, 2 and 5 times the powers of ten, or the
/// powers alone, or some of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |steps: &[f64], stride: usize| -> Vec<f64> {
        let powers = (first..=last).step_by(stride).map(|power| 10f64.powi(power));
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * power));
        all.filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001).collect()
    };
    let fine = inside(&[1.0, 2.0, 5.0], 1);
    if fine.len() <= 8 {
        return fine;
    }
    (1..).map(|stride| inside(&[1.0], stride)).find(|ticks| ticks.len() <= 8).unwrap_or_default()
}

/// The x of all points, those whose labels would touch left out.
fn labelled(series: &[Series], axis: &Axis) -> Vec<f64> {
    let points = series.iter().flat_map(|series| &series.points);
    let mut all: Vec<f64> = points.map(|point| point.0).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let mut kept: Vec<f64> = Vec::new();
    for x in all {
        let apart = |last: &f64| axis.place(x) - axis.place(*last) >= LABEL_WIDTH;
        if kept.last().is_none_or(apart) {
            kept.push(x);
        }
    }
    kept
}

/// The drawing, without its legend.
pub(super) fn lines(chart: &Chart<'_>) -> Markup {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x_axis = Axis::over(points().map(|point| point.0), LEFT + 8.0, WIDTH - RIGHT - 8.0);
    let y_axis = Axis::over(points().map(|point| point.1), HEIGHT - BOTTOM - 6.0, TOP + 6.0);
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(chart.description) {
            text.label x=(4) y=(14) { (chart.y_label) }
            @for tick in ticks(y_axis.low, y_axis.high) {
                (horizontal(y_axis.place(tick), &(chart.y_text)(tick)))
            }
            line.axis x1=(LEFT) y1=(HEIGHT - BOTTOM) x2=(WIDTH - RIGHT) y2=(HEIGHT - BOTTOM) {}
            @for x in labelled(chart.series, &x_axis) {
                line.axis x1=(at(x_axis.place(x))) y1=(HEIGHT - BOTTOM) x2=(at(x_axis.place(x)))
                    y2=(HEIGHT - BOTTOM + 4.0) {}
                text.tick.middle x=(at(x_axis.place(x))) y=(HEIGHT - BOTTOM + 17.0) {
                    ((chart.x_text)(x))
                }
            }
            text.label.end x=(WIDTH - RIGHT) y=(HEIGHT - 8.0) { (chart.x_label) }
            // The first is ours, and lies on top.
            @for (index, series) in chart.series.iter().enumerate().rev() {
                (curve(index, series, chart, &x_axis, &y_axis))
            }
        }
    }
}

fn horizontal(y: f64, text: &str) -> Markup {
    html! {
        line.grid x1=(LEFT) y1=(at(y)) x2=(WIDTH - RIGHT) y2=(at(y)) {}
        text.tick.end x=(LEFT - 6.0) y=(at(y + 4.0)) { (text) }
    }
}

fn curve(index: usize, series: &Series, chart: &Chart<'_>, x: &Axis, y: &Axis) -> Markup {
    let places: Vec<(f64, f64)> =
        series.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! {
        g class=(class(index)) {
            polyline.curve points=(path.join(" ")) {}
            @for ((value_x, value_y), (x, y)) in series.points.iter().zip(&places) {
                g {
                    title {
                        (series.name) ", " ((chart.x_text)(*value_x)) ": " ((chart.y_text)(*value_y))
                    }
                    (mark(index, *x, *y))
                }
            }
        }
    }
}

/// What tells a series from the others where colours do not.
fn mark(index: usize, x: f64, y: f64) -> Markup {
    let path = |points: &[(f64, f64)]| {
        let words: Vec<String> =
            points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        html! { polygon.mark points=(words.join(" ")) {} }
    };
    match index % STYLES {
        0 => html! { circle.mark cx=(at(x)) cy=(at(y)) r="4" {} },
        1 => path(&[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)]),
        2 => path(&[(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)]),
        3 => path(&[(0.0, -5.0), (4.5, 0.0), (0.0, 5.0), (-4.5, 0.0)]),
        4 => path(&[(0.0, 4.5), (4.5, -3.5), (-4.5, -3.5)]),
        5 => html! { circle.mark.hollow cx=(at(x)) cy=(at(y)) r="3.5" {} },
        6 => path(&[(-5.0, -1.5), (5.0, -1.5), (5.0, 1.5), (-5.0, 1.5)]),
        _ => path(&[(-1.5, -5.0), (1.5, -5.0), (1.5, 5.0), (-1.5, 5.0)]),
    }
}

/// Which curve is which.
pub(super) fn legend<'a>(names: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        ul.legend {
            @for (index, name) in names.enumerate() {
                li {
                    svg class=(class(index)) viewBox="0 0 26 12" width="26" height="12"
                        aria-hidden="true" {
                        line.curve x1="0" y1="6" x2="26" y2="6" {}
                        (mark(index, 13.0, 6.0))
                    }
                    (name)
                }
            }
        }
    }
}

/// Bars from 0, in groups of the same length of scale.
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    /// Series and value.
    pub(super) bars: Vec<(usize, f64)>,
}

const BAR: f64 = 13.0;
const GROUP_TITLE: f64 = 22.0;

/// Horizontal bars, without their legend. Each group has a scale of its own.
pub(super) fn bars(description: &str, groups: &[Group<'_>], text: fn(f64) -> String) -> Markup {
    let height = |group: &Group<'_>| GROUP_TITLE + BAR * group.bars.len() as f64 + 8.0;
    let mut top = 0.0;
    let mut placed = Vec::new();
    for group in groups {
        placed.push((top, group));
        top += height(group);
    }
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (at(top)) } role="img" aria-label=(description) {
            @for (top, group) in placed {
                text.label x="4" y=(at(top + 15.0)) { (group.name) }
                @let longest = group.bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
                @for (index, (series, value)) in group.bars.iter().enumerate() {
                    @let y = top + GROUP_TITLE + BAR * index as f64;
                    @let length = if longest > 0.0 { value / longest * (WIDTH - 90.0) } else { 0.0 };
                    g class=(class(*series)) {
                        rect.bar x="4" y=(at(y)) width=(at(length)) height=(BAR - 3.0) {}
                    }
                    text.tick x=(at(length + 9.0)) y=(at(y + 9.5)) { (text(*value)) }
                }
            }
        }
    }
}

fn class(index: usize) -> String {
    format!("s{}", index % STYLES)
}

/// A tenth of a unit is less than anybody sees.
fn at(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.into(), points: points.to_vec() }
    }

    fn drawing(series: &[Series]) -> String {
        lines(&Chart {
            description: "times <by> size",
            x_label: "size",
            y_label: "time",
            x_text: |x| format!("{x}"),
            y_text: |y| format!("{y} s"),
            series,
        })
        .into_string()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.9, 11.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(1.0, 1e5), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert!(ticks(1e-9, 1e9).len() <= 8);
        assert_eq!(ticks(2.1, 4.9), Vec::<f64>::new());
    }

    #[test]
    fn axes_are_logarithmic_and_survive_one_value() {
        let axis = Axis::over([1.0, 100.0].into_iter(), 0.0, 10.0);
        assert!((axis.place(10.0) - 5.0).abs() < 1e-9);
        let one = Axis::over([7.0].into_iter(), 0.0, 10.0);
        assert!((one.place(7.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let crowd = series("a", &[(1.0, 1.0), (1.01, 1.0), (1000.0, 1.0)]);
        let axis = Axis::over([1.0, 1000.0].into_iter(), 0.0, 400.0);
        assert_eq!(labelled(&[crowd], &axis), [1.0, 1000.0]);
    }

    #[test]
    fn every_point_is_marked_and_every_name_is_escaped() {
        let text = drawing(&[
            series("a & b", &[(1.0, 2.0), (10.0, 20.0)]),
            series("<script>", &[(1.0, 3.0)]),
        ]);
        assert_eq!(text.matches("<title>").count(), 3);
        assert!(text.contains("a &amp; b, 10: 20 s") && text.contains("&lt;script&gt;, 1: 3 s"));
        assert!(text.contains("aria-label=\"times &lt;by&gt; size\""));
        assert!(!text.contains("<script>") && !text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        assert!(drawing(&[]).contains("<svg"));
        assert!(bars("none", &[], |value| format!("{value}")).into_string().contains("<svg"));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let groups = [Group { name: "a", bars: vec![(0, 2.0), (1, 1.0)] }];
        let text = bars("walls", &groups, |value| format!("{value} s")).into_string();
        assert!(text.contains("width=\"390\"") && text.contains("width=\"195\""), "{text}");
    }
}
