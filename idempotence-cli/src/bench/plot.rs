//! A plot of how long calls took.

use std::fmt::Write as _;
use std::time::Duration;

use super::load::Measured;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// The space around the plot, for its texts.
const MARGIN: f64 = 50.0;
const COLOURS: [&str; 2] = ["#0b6e99", "#d9730d"];

/// The share of calls that took at most so long, in percent. The axis of the time is logarithmic.
pub(crate) fn svg(rows: &[(&str, &Measured)]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let axis = TimeAxis::of(rows);
    axis.draw(&mut svg);
    for percent in [0.0, 50.0, 100.0] {
        let (at, left, right) = (y(percent), MARGIN, WIDTH - MARGIN);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let mut line = 20.0;
    for ((what, measured), colour) in rows.iter().zip(COLOURS) {
        let points = (0..=100_u8).map(|percent| {
            let time = measured.percentile(usize::from(percent));
            format!("{:.1},{:.1}", axis.x(micros(time)), y(f64::from(percent)))
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let (rate, p99) = (measured.per_second(), micros(measured.percentile(99)) / 1e3);
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{MARGIN}\" y=\"{line}\" fill=\"{colour}\">{what}: {rate:.0} a second, p99 {p99:.2} ms</text>"
        );
        line += 16.0;
    }
    svg.push_str("</svg>\n");
    svg
}

fn y(percent: f64) -> f64 {
    HEIGHT - MARGIN - percent / 100.0 * (HEIGHT - 2.0 * MARGIN)
}

/// The axis of the time: powers of ten of a microsecond.
struct TimeAxis {
    least: f64,
    most: f64,
}

impl TimeAxis {
    fn of(rows: &[(&str, &Measured)]) -> Self {
        let ends = rows
            .iter()
            .flat_map(|(_, measured)| [0, 100].map(|percent| micros(measured.percentile(percent))));
        let (mut shortest, mut longest) = (f64::INFINITY, 1.0_f64);
        for end in ends {
            (shortest, longest) = (shortest.min(end), longest.max(end));
        }
        let least = shortest.log10().floor();
        let most = longest.log10().ceil().max(least + 1.0);
        Self { least, most }
    }

    fn x(&self, micros: f64) -> f64 {
        let share = (micros.log10() - self.least) / (self.most - self.least);
        MARGIN + share * (WIDTH - 2.0 * MARGIN)
    }

    fn draw(&self, svg: &mut String) {
        let mut exponent = self.least;
        while exponent <= self.most {
            let (at, label) = (self.x(10_f64.powf(exponent)), label(exponent));
            let (top, bottom) = (y(100.0), y(0.0));
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" stroke=\"#ddd\"/>\n<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            );
            exponent += 1.0;
        }
    }
}

/// At least one, because zero has no logarithm.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).max(1.0)
}

/// A power of ten of a microsecond.
fn label(exponent: f64) -> String {
    match 10_f64.powf(exponent) {
        micros if micros < 1e3 => format!("{micros:.0} µs"),
        micros if micros < 1e6 => format!("{:.0} ms", micros / 1e3),
        micros => format!("{:.0} s", micros / 1e6),
    }
}
