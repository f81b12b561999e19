//! The table of counts: how it is written, read and compared.

use std::fmt::{self, Write as _};

/// The counts of one call in the order of [`COLUMNS`]; `None` if they are not known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Costs(pub(crate) [Option<f64>; 6]);

/// The columns, and how much the count may grow.
const COLUMNS: [(&str, Growth); 6] = [
    ("instructions", Growth::Percent),
    ("atomic writes", Growth::None),
    ("system calls", Growth::None),
    ("allocations", Growth::None),
    ("bytes", Growth::Percent),
    ("commands", Growth::None),
];

#[derive(Debug, Clone, Copy)]
enum Growth {
    /// A share of the count.
    Percent,
    None,
}

/// How much instructions and bytes may grow, as a share.
const TOLERANCE: f64 = 0.03;
/// How much they may grow with another compiler or libc.
const FOREIGN_TOLERANCE: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) call: String,
    pub(crate) store: String,
    pub(crate) costs: Costs,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) made_with: String,
    pub(crate) rows: Vec<Row>,
}

const BEGIN: &str = "<!-- counts -->\n";
const END: &str = "<!-- end of counts -->";

impl Costs {
    pub(crate) fn minus(&self, other: &Self) -> Self {
        let mut costs = *self;
        for (cost, other) in costs.0.iter_mut().zip(other.0) {
            *cost = cost.zip(other).map(|(cost, other)| cost - other);
        }
        costs
    }

    pub(crate) fn divided_by(&self, by: f64) -> Self {
        Self(self.0.map(|cost| cost.map(|cost| cost / by)))
    }
}

impl Growth {
    /// The difference below which two counts are equal.
    fn allowed(self, expected: f64, tolerance: f64) -> f64 {
        match self {
            Self::Percent => expected * tolerance,
            // More than half, because the expected count is rounded. Sockets make large counts vary a little.
            Self::None => 0.6 + expected * 0.005,
        }
    }
}

impl Table {
    /// Reads the table of a page.
    pub(crate) fn read_from(page: &str) -> Self {
        let mut lines = parts(page).1.lines().filter(|line| !line.is_empty());
        let made_with = lines.next().unwrap_or_default().to_owned();
        Self {
            made_with,
            // After the line of names and the line of dashes.
            rows: lines.skip(2).map(Row::read).collect(),
        }
    }

    /// The page with this table.
    pub(crate) fn written_into(&self, page: &str) -> String {
        let (before, _, after) = parts(page);
        format!("{before}{BEGIN}{self}{END}{after}")
    }

    /// Describes the differences, as an error if a count has grown.
    pub(crate) fn compare(&self, found: &Self) -> Result<String, String> {
        let mut text = format!(
            "Expected: {}\nFound:    {}\n\n",
            self.made_with, found.made_with
        );
        let tolerance = if self.made_with == found.made_with {
            TOLERANCE
        } else {
            FOREIGN_TOLERANCE
        };
        let _ = write!(text, "{}", header());
        let (mut grew, mut fell) = (Vec::new(), 0);
        for found in &found.rows {
            let same = |row: &&Row| row.call == found.call && row.store == found.store;
            let Some(expected) = self.rows.iter().find(same) else {
                grew.push(format!("{}, {}: not in the table", found.call, found.store));
                continue;
            };
            let _ = write!(text, "| {} | {} |", found.call, found.store);
            for (place, (name, growth)) in COLUMNS.iter().enumerate() {
                let (expected, found_cost) = (expected.costs.0[place], found.costs.0[place]);
                let (Some(old), Some(new)) = (expected, found_cost) else {
                    let _ = write!(text, " {} |", cell(found_cost));
                    continue;
                };
                if cell(expected) == cell(found_cost) {
                    let _ = write!(text, " {old:.0} |");
                } else {
                    let _ = write!(text, " {old:.0} → {new:.0} |");
                }
                let allowed = growth.allowed(old, tolerance);
                if new > old + allowed {
                    grew.push(format!(
                        "{}, {}: {name} {old:.0} → {new:.0}",
                        found.call, found.store
                    ));
                } else if new < old - allowed.min(growth.allowed(old, 0.01)) {
                    fell += 1;
                }
            }
            text.push('\n');
        }
        if fell > 0 {
            let _ = write!(
                text,
                "\n{fell} counts fell: write them into the table with `--update`.\n"
            );
        }
        if grew.is_empty() {
            return Ok(text);
        }
        let _ = write!(
            text,
            "\nThese counts grew (if that is intended, write them into the table with `--update`):\n{}\n",
            grew.join("\n")
        );
        Err(text)
    }
}

/// The text before the table, the table, and the text after it.
fn parts(page: &str) -> (&str, &str, &str) {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some((before, table, after))
    });
    parts.expect("the page has the marks of the table")
}

impl Row {
    fn read(line: &str) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, call, store, costs @ ..] = &cells[..] else {
            panic!("no row: {line}");
        };
        let mut read = Costs::default();
        for (cost, cell) in read.0.iter_mut().zip(costs) {
            *cost = cell.parse().ok();
        }
        Self {
            call: (*call).to_owned(),
            store: (*store).to_owned(),
            costs: read,
        }
    }
}

fn cell(cost: Option<f64>) -> String {
    cost.map_or_else(|| "–".to_owned(), |cost| format!("{cost:.0}"))
}

fn header() -> String {
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    format!(
        "| call | store | {names} |\n| --- | --- |{}\n",
        " ---: |".repeat(COLUMNS.len())
    )
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.made_with)?;
        f.write_str(&header())?;
        for Row { call, store, costs } in &self.rows {
            let cells = costs.0.map(cell).join(" | ");
            writeln!(f, "| {call} | {store} | {cells} |")?;
        }
        Ok(())
    }
}
