//! Draws the throughput of first calls on one Redis over the number of tasks: `first-calls.svg`. All contenders take turns in
//! one process.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use idempotence_benches::on_redis::OnRedis;
use idempotence_benches::one_core::OneCore;
use idempotence_benches::rounds::{Rounds, machine, rounds, tasks_text};
use plotters::prelude::*;

const TASKS: [u32; 6] = [1, 4, 16, 64, 256, 512];

/// A contender, and its calls per second for each number of tasks.
type Line = (&'static str, Vec<(u32, f64)>);

fn main() -> Result<(), Box<dyn Error>> {
    let on_redis = OnRedis::start();
    let machine = machine(&format!("Redis {}", on_redis.version));
    let lines = measure(&on_redis);
    // One round is a test, whose numbers mean nothing.
    let folder = if rounds() > 1 {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    };
    let path = folder.join("first-calls.svg");
    draw(&path, &lines, &machine)?;
    println!("{machine}\nwrote {}", path.display());
    Ok(())
}

fn measure(on_redis: &OnRedis) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for tasks in TASKS {
        let _one_core = (tasks == 1).then(OneCore::pin);
        let laps = on_redis.laps(tasks);
        let rounds = Rounds::run(&laps, rounds(), Duration::from_millis(200));
        lines.resize_with(laps.len(), || ("", Vec::new()));
        for (contender, (name, _)) in laps.iter().enumerate() {
            let seconds = rounds.seconds().median(|round| round[contender]);
            let speed = f64::from(tasks) / seconds;
            println!("{name}, {}: {speed:.0}/s", tasks_text(tasks));
            lines[contender].0 = name;
            lines[contender].1.push((tasks, speed));
        }
    }
    lines
}

/// The colours of the contenders, which readers who are colour-blind can distinguish, too.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(40, 40, 40),
    RGBColor(213, 94, 0),
    RGBColor(0, 140, 100),
    RGBColor(204, 121, 167),
    RGBColor(150, 150, 0),
];

fn draw(path: &Path, lines: &[Line], machine: &str) -> Result<(), Box<dyn Error>> {
    let speeds = lines.iter().flat_map(|(_, points)| points);
    let most = speeds.map(|(_, speed)| *speed).fold(0.0, f64::max);
    // A whole number of tens of thousands.
    let top = (most * 1.05 / 10_000.0).ceil() * 10_000.0;

    let root = SVGBackend::new(path, (900, 540)).into_drawing_area();
    root.fill(&WHITE)?;
    let small = ("sans-serif", 14).into_font().color(&BLACK.mix(0.6));
    root.draw(&Text::new(machine.to_owned(), (20, 518), small))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "First calls on one Redis: claim, run, release",
            ("sans-serif", 23),
        )
        .margin(16)
        .margin_bottom(36)
        .margin_right(160)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(
            (1_u32..512)
                .log_scale()
                .base(2.0)
                .with_key_points(TASKS.to_vec()),
            0.0..top,
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("tasks that call at the same time")
        .y_desc("calls per second")
        .y_label_formatter(&|speed| thousands(*speed))
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 17))
        .draw()?;
    for ((_, points), color) in lines.iter().zip(COLORS) {
        chart.draw_series(LineSeries::new(
            points.iter().copied(),
            color.stroke_width(2),
        ))?;
        let dot = |point: &(u32, f64)| Circle::new(*point, 4, color.filled());
        chart.draw_series(points.iter().map(dot))?;
    }
    let at = |point: &(u32, f64)| chart.backend_coord(point);
    for (text, place, color) in names(lines, at) {
        let style = ("sans-serif", 17).into_font().color(&color);
        root.draw(&Text::new(text, place, style))?;
    }
    root.present()?;
    Ok(())
}

fn thousands(number: f64) -> String {
    if number < 1000.0 {
        format!("{number:.0}")
    } else {
        format!("{:.0},{:03.0}", (number / 1000.0).floor(), number % 1000.0)
    }
}

/// The names to the right of the ends of their lines, far enough from each other.
fn names<'a>(
    lines: &[Line],
    at: impl Fn(&(u32, f64)) -> (i32, i32) + 'a,
) -> Vec<(&'static str, (i32, i32), RGBColor)> {
    const HEIGHT: i32 = 20;

    let ends = lines
        .iter()
        .zip(COLORS)
        .filter_map(|((name, points), color)| {
            let (x, y) = at(points.last()?);
            Some((*name, (x + 12, y - 7), color))
        });
    let mut names: Vec<_> = ends.collect();
    names.sort_by_key(|(_, (_, y), _)| *y);
    for next in 1..names.len() {
        let above = names[next - 1].1.1;
        names[next].1.1 = names[next].1.1.max(above + HEIGHT);
    }
    names
}
