//! How well models tell inputs unlike their training data from their own test samples, against the strongest point method.

use std::collections::{BTreeMap, BTreeSet};

use fedsi_metrics::paired_t_test;

use crate::cells::{RowCells, SettingCells};
use crate::entry::Source;
use crate::record::{RunRecord, StrangeInputs};
use crate::tables::p_equals;

/// What an input is told by.
type Signal = (&'static str, fn(&StrangeInputs) -> Option<f64>);

const SIGNALS: [Signal; 2] = [("entropy", |one| one.entropy), ("strangeness", |one| one.strangeness)];

/// A line for each kind of input: FedSI's AUROC by entropy and by strangeness, minus that of the point method with FedSI's weight
/// noise, which was named before any of these runs. Paired over seeds; none where FedSI has no such runs.
#[must_use]
pub fn strange_verdicts(cells: &SettingCells<'_>) -> Vec<String> {
    let Some(reference) = cells.reference() else { return Vec::new() };
    let ours = &cells.rows[reference];
    let rival =
        cells.rows.iter().find(|row| row.entry.source == Source::WeightNoise && row.rounds == ours.rounds);
    let kinds: BTreeSet<&str> =
        ours.records.iter().flat_map(|run| run.strange_inputs.keys().map(String::as_str)).collect();
    let line = |kind: &&str| {
        let parts: Vec<String> =
            SIGNALS.iter().filter_map(|signal| comparison(ours, rival, kind, signal)).collect();
        (!parts.is_empty()).then(|| format!("AUROC on {kind}: {}", parts.join("; ")))
    };
    kinds.iter().filter_map(line).collect()
}

fn comparison(
    ours: &RowCells<'_>,
    rival: Option<&RowCells<'_>>,
    kind: &str,
    &(name, area): &Signal,
) -> Option<String> {
    let by_seed = |row: &RowCells<'_>| -> BTreeMap<u64, f64> {
        let value = |run: &&RunRecord| Some((run.summary.seed, area(run.strange_inputs.get(kind)?)?));
        row.records.iter().filter_map(value).collect()
    };
    let own = by_seed(ours);
    let mean =
        |all: &BTreeMap<u64, f64>| fedsi_metrics::Summary::of(all.values().copied()).map(|all| all.mean);
    let mut text = format!("by {name} {:.3}", mean(&own)?);
    let Some(rival) = rival else { return Some(text) };
    let other = by_seed(rival);
    let Some(other_mean) = mean(&other) else { return Some(text) };
    text.push_str(&format!(", {} {other_mean:.3}", rival.entry.title));
    let pairs: Vec<(f64, f64)> =
        own.iter().filter_map(|(seed, value)| Some((*value, *other.get(seed)?))).collect();
    match paired_t_test(&pairs) {
        Some(test) => {
            let [low, high]: [f64; 2] = test.interval.into();
            text.push_str(&format!(" (FedSI minus it, 95%: {low:+.3} to {high:+.3}, {})", p_equals(test.p)));
        }
        None => text.push_str(" (not tested)"),
    }
    Some(text)
}
