//! The tables of an experiment.

use fedsi_compare::statistics::{Difference, ece_floor};
use fedsi_metrics::mce_floor;

use crate::cells::{Comparison, SettingCells};
use crate::entry::Source;
use crate::published::published;
use crate::text::{TextCell, TextTable, number, score_title};

/// Bins with less than this share of the samples do not count in the MCE.
const MCE_SHARE: f64 = 0.01;

/// A score of every row under every setting.
#[must_use]
pub fn score_table(all: &[SettingCells<'_>], score: &str) -> TextTable {
    let head = |cells: &SettingCells<'_>| format!("{}{}", cells.setting.label(), head_note(cells));
    let heading = std::iter::once("method".to_owned()).chain(all.iter().map(head));
    let mut table = TextTable { heading: heading.collect(), rows: Vec::new() };
    let Some(first) = all.first() else { return table };
    for (row, own) in first.rows.iter().enumerate() {
        let cells = all.iter().map(|cells| score_cell(cells, row, score));
        let title = TextCell::from(own.entry.title.to_owned());
        table.rows.push(std::iter::once(title).chain(cells).collect());
    }
    table
}

/// Mean and standard deviation, how it compares with FedSI, the floor of an ECE, and what the cell is of where that is less
/// than the protocol and does not stand in the head of its column.
fn score_cell(cells: &SettingCells<'_>, row: usize, score: &str) -> TextCell {
    let mut cell = mean_cell(cells, row, score);
    let floor = if score == "ece" { mean_floor(cells, row) } else { None };
    let floor = floor.map(|floor| format!("floor {}", number(score, floor)));
    let notes: Vec<String> = floor.into_iter().chain(own_shortfall(cells, row)).collect();
    if !notes.is_empty() {
        cell.text.push_str(&format!(" ({})", notes.join(", ")));
    }
    cell
}

/// What all rows of a column lack of the protocol, for its head.
fn head_note(cells: &SettingCells<'_>) -> String {
    cells.common_shortfall().map(|shortfall| format!(" ({shortfall})")).unwrap_or_default()
}

/// What a row lacks of the protocol, where it does not stand in the head of its column.
fn own_shortfall(cells: &SettingCells<'_>, row: usize) -> Option<String> {
    let shortfall = cells.rows[row].shortfall(cells.setting);
    shortfall.filter(|own| cells.common_shortfall().as_ref() != Some(own))
}

/// The ECE that a perfectly calibrated model with a row's confidences would have.
fn mean_floor(cells: &SettingCells<'_>, row: usize) -> Option<f64> {
    mean(cells.rows[row].summaries.iter().filter_map(|run| ece_floor(&run.scores)))
}

/// Mean and standard deviation, and how it compares with FedSI.
fn mean_cell(cells: &SettingCells<'_>, row: usize, score: &str) -> TextCell {
    let Some(spread) = cells.spread(row, score) else { return TextCell::from("-".to_owned()) };
    let mut text = number(score, spread.mean);
    if let Some(deviation) = spread.std_dev {
        text.push_str(&format!(" ± {}", number(score, deviation)));
    }
    text.push_str(mark(cells.comparison(row, score)));
    // The largest gap of a single bin is not tested: the best of it says little.
    // Nor does the best of too few seeds.
    let is_ranked = !matches!(score, "mce" | "mce_1pct") && cells.tests(score) > 0;
    let is_best = is_ranked && cells.result(row, score).is_some_and(|result| result.rank == Some(1));
    TextCell { text, is_best }
}

/// How a cell compares with FedSI's.
const fn mark(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Tied => "†",
        Comparison::Better => "▲",
        Comparison::Worse => "▼",
        Comparison::Reference | Comparison::Untested => "",
    }
}

/// What the marks mean.
pub const MARKS: &str = "Mean ± standard deviation over seeds. **Bold**: the best mean of the rows that are ranked, from five seeds on. By the test, \
▼: worse than FedSI (calibrated), ▲: better, †: no significant difference. Without a mark: not tested (fewer than five seeds, other \
seeds or rounds than FedSI's, MCE, networks of pooled data, which are references, and FedSI over own classes, which is compared above).";

/// All scores of one setting that say how far probabilities can be trusted.
#[must_use]
pub fn calibration_table(cells: &SettingCells<'_>) -> TextTable {
    let strange: Vec<String> = {
        let records = cells.rows.iter().flat_map(|row| &row.records);
        let mut names: Vec<String> =
            records.flat_map(|record| record.strange_inputs.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    };
    let scores = ["ece", "mce_1pct", "mce", "brier", "nll", "aurc"];
    let mut heading = vec!["method".to_owned(), "runs".to_owned(), "accuracy %".to_owned()];
    for score in scores {
        heading.push(score_title(score).to_owned());
        if matches!(score, "ece" | "mce_1pct") {
            heading.push(format!("floor of {}", score_title(score)));
        }
    }
    heading.push("error % at 80% coverage".to_owned());
    for name in &strange {
        heading.push(format!("{name}: AUROC of entropy"));
        heading.push(format!("{name}: AUROC of strangeness"));
    }
    let rows = (0..cells.rows.len()).map(|row| {
        let own = &cells.rows[row];
        let runs = own.shortfall(cells.setting).unwrap_or_else(|| own.seeds());
        let mut line = vec![TextCell::from(own.entry.title.to_owned()), TextCell::from(runs)];
        line.push(mean_cell(cells, row, "accuracy"));
        for score in scores {
            line.push(mean_cell(cells, row, score));
            let floor = match score {
                "ece" => mean_floor(cells, row),
                "mce_1pct" => mean(own.records.iter().filter_map(|run| {
                    mce_floor(run.bins.iter().map(|&(count, confidence, _)| (count, confidence)), MCE_SHARE)
                })),
                _ => continue,
            };
            line.push(optional(floor, |floor| number(score, floor)));
        }
        let declined = mean(own.records.iter().filter_map(|run| run.error_at_80));
        line.push(optional(declined, |risk| format!("{:.2}", 100.0 * risk)));
        for name in &strange {
            let found = || own.records.iter().filter_map(|run| run.strange_inputs.get(name));
            line.push(area_cell(found().filter_map(|one| one.entropy)));
            line.push(area_cell(found().filter_map(|one| one.strangeness)));
        }
        line
    });
    TextTable { heading, rows: rows.collect() }
}

/// Mean and standard deviation of an area under a curve.
fn area_cell(values: impl Iterator<Item = f64>) -> TextCell {
    optional(fedsi_metrics::Summary::of(values), |spread| match spread.std_dev {
        Some(deviation) => format!("{:.3} ± {deviation:.3}", spread.mean),
        None => format!("{:.3}", spread.mean),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    fedsi_metrics::Summary::of(values).map(|spread| spread.mean)
}

fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> TextCell {
    TextCell::from(value.map_or("-".to_owned(), text))
}

/// Ours beside the paper's, which are not comparable; none where the paper has no numbers of these.
#[must_use]
pub fn published_table(all: &[SettingCells<'_>], scores: &[&str]) -> Option<TextTable> {
    let columns: Vec<(&SettingCells<'_>, &str)> =
        all.iter().flat_map(|cells| scores.iter().map(move |score| (cells, *score))).collect();
    let figure = |cells: &SettingCells<'_>, row: usize, score: &str| {
        let entry = cells.rows[row].entry;
        let is_papers = matches!(entry.source, Source::Calibrated | Source::Paper | Source::Tuned);
        let setting = cells.setting;
        published(entry.method, setting.dataset, setting.size, score).filter(|_| is_papers)
    };
    let first = all.first()?;
    let rows: Vec<usize> = (0..first.rows.len())
        .filter(|&row| columns.iter().any(|(cells, score)| figure(cells, row, score).is_some()))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut heading = vec!["method".to_owned()];
    for (cells, score) in &columns {
        heading.push(format!("{}: {}{}", cells.setting.label(), score_title(score), head_note(cells)));
        heading.push("paper (not comparable)".to_owned());
    }
    let line = |row: usize| {
        let mut line = vec![TextCell::from(first.rows[row].entry.title.to_owned())];
        for (cells, score) in &columns {
            let shortfall = own_shortfall(cells, row);
            line.push(optional(cells.spread(row, score).map(|spread| spread.mean), |mean| match shortfall {
                Some(shortfall) => format!("{} ({shortfall})", number(score, mean)),
                None => number(score, mean),
            }));
            line.push(optional(figure(cells, row, score), |value| number(score, value)));
        }
        line
    };
    Some(TextTable { heading, rows: rows.into_iter().map(line).collect() })
}

/// FedSI minus every row that is tested against it, with intervals; none where nothing is tested.
#[must_use]
pub fn difference_table(cells: &SettingCells<'_>, scores: &[&str]) -> Option<TextTable> {
    let heading = [
        "score",
        "method",
        "FedSI minus method",
        "95% interval",
        "p (Holm)",
        "bootstrap",
        "clients: FedSI better / worse",
    ];
    let mut rows = Vec::new();
    for score in scores {
        for (row, own) in cells.rows.iter().enumerate() {
            let Some(result) = cells.result(row, score) else { continue };
            let Some(difference) = result.difference.filter(|found| found.p_holm.is_some()) else { continue };
            let counts = result.against_reference;
            let mut line = vec![score_title(score).to_owned(), own.entry.title.to_owned()];
            line.extend(difference_texts(score, &difference));
            // Counted for the method: its losses are FedSI's wins.
            line.push(format!("{} / {}", counts.losses, counts.wins));
            rows.push(line.into_iter().map(TextCell::from).collect());
        }
    }
    (!rows.is_empty()).then(|| TextTable { heading: heading.map(str::to_owned).to_vec(), rows })
}

fn difference_texts(score: &str, difference: &Difference) -> [String; 4] {
    let interval = |ends: Option<[f64; 2]>| ends.map_or("-".to_owned(), |ends| minus_interval(score, ends));
    let p = difference.p_holm.map_or("-".to_owned(), p_value);
    [signed(score, -difference.mean), interval(difference.interval), p, interval(difference.bootstrap)]
}

/// The interval of FedSI minus a method, of that of the method minus FedSI.
#[must_use]
pub fn minus_interval(score: &str, [low, high]: [f64; 2]) -> String {
    format!("{} to {}", signed(score, -high), signed(score, -low))
}

/// A p-value in a table.
#[must_use]
pub fn p_value(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// A p-value in a sentence.
#[must_use]
pub fn p_equals(p: f64) -> String {
    if p < 1e-4 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") }
}

/// A difference with its sign; accuracy in points.
#[must_use]
pub fn signed(score: &str, value: f64) -> String {
    let digits = number(score, value.abs());
    // Less than the last digit has no sign.
    let sign = match value {
        _ if digits.chars().all(|letter| matches!(letter, '0' | '.')) => "",
        value if value < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{digits}")
}

/// The bins of a reliability diagram, all seeds together.
#[must_use]
pub fn bins_table(all: &[SettingCells<'_>], row_id: &str) -> TextTable {
    let mut heading = vec!["confidence".to_owned()];
    let mut rows: Vec<Vec<TextCell>> = (0..10)
        .map(|bin| {
            vec![TextCell::from(format!("{:.1} to {:.1}", 0.1 * f64::from(bin), 0.1 * f64::from(bin + 1)))]
        })
        .collect();
    for cells in all {
        let label = cells.setting.label();
        heading.extend([format!("{label}: samples"), "mean confidence".to_owned(), "accuracy".to_owned()]);
        let own = cells.rows.iter().find(|row| row.entry.id == row_id);
        let pooled =
            own.map(|row| pooled_bins(row.records.iter().map(|run| run.bins.as_slice()))).unwrap_or_default();
        for (place, row) in rows.iter_mut().enumerate() {
            let bin = pooled.get(place).filter(|bin| bin.0 > 0);
            row.push(TextCell::from(bin.map_or("0".to_owned(), |bin| bin.0.to_string())));
            row.push(optional(bin.map(|bin| bin.1), |value| format!("{value:.4}")));
            row.push(optional(bin.map(|bin| bin.2), |value| format!("{value:.4}")));
        }
    }
    TextTable { heading, rows }
}

/// Bins of several runs together: counts added, means weighted by them.
#[must_use]
pub fn pooled_bins<'a>(runs: impl Iterator<Item = &'a [(usize, f64, f64)]>) -> Vec<(usize, f64, f64)> {
    let mut pooled: Vec<(usize, f64, f64)> = Vec::new();
    for run in runs {
        pooled.resize(pooled.len().max(run.len()), (0, 0.0, 0.0));
        for (sum, bin) in pooled.iter_mut().zip(run) {
            let count = bin.0 as f64;
            *sum = (sum.0 + bin.0, sum.1 + count * bin.1, sum.2 + count * bin.2);
        }
    }
    let mean = |sum: f64, count: usize| if count > 0 { sum / count as f64 } else { 0.0 };
    pooled
        .into_iter()
        .map(|(count, confidence, right)| (count, mean(confidence, count), mean(right, count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_runs_are_weighted_by_their_samples() {
        let (one, two) = ([(1, 0.9, 1.0), (0, 0.0, 0.0)], [(3, 0.5, 0.0), (2, 0.7, 0.5)]);
        let pooled = pooled_bins([one.as_slice(), two.as_slice()].into_iter());
        assert_eq!(pooled, [(4, 0.6, 0.25), (2, 0.7, 0.5)]);
    }
}
