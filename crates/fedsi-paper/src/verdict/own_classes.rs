//! FedSI beside simple rivals where everybody predicts the classes that a client has training samples of, and no others.

use fedsi_metrics::paired_t_test;

use super::shown;
use crate::cells::SettingCells;
use crate::entry::Source;
use crate::tables::{p_equals, signed};
use crate::text::score_title;

/// The scores of the rows whose predictions are over own classes alone, first FedSI's, with the difference of each other from
/// it, paired over the seeds that both have. None where FedSI's row or all others have not been run.
#[must_use]
pub fn over_own_classes(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let is_own = |source: Source| matches!(source, Source::OwnClasses | Source::PooledOwnClasses);
    let (ours, others): (Vec<usize>, Vec<usize>) = (0..cells.rows.len())
        .filter(|&row| is_own(cells.rows[row].entry.source))
        .partition(|&row| cells.rows[row].entry.method == "fedsi");
    let ours = *ours.first()?;
    let own = cells.by_seed(ours, score);
    let mean = |row: usize| Some(shown(score, cells.spread(row, score)?.mean));
    let title = |row: usize| cells.rows[row].entry.title;
    let mut parts = Vec::new();
    for row in others {
        if cells.rows[row].entry.source == Source::OwnClasses
            && cells.rows[row].rounds != cells.rows[ours].rounds
        {
            continue;
        }
        let Some(value) = mean(row) else { continue };
        let found = cells.by_seed(row, score);
        let pairs: Vec<(f64, f64)> =
            found.iter().filter_map(|(seed, value)| Some((*own.get(seed)?, *value))).collect();
        let test = paired_t_test(&pairs).map(|test| {
            let [low, high]: [f64; 2] = test.interval.into();
            let difference = signed(score, (low + high) / 2.0);
            let ends = format!("{} to {}", signed(score, low), signed(score, high));
            format!("FedSI minus it: {difference}, 95% interval {ends}, {}, not corrected", p_equals(test.p))
        });
        let count = pairs.len();
        let few = || format!("{count} seed{} in common: no test", if count == 1 { "" } else { "s" });
        parts.push(format!("{} {value} ({})", title(row), test.unwrap_or_else(few)));
    }
    if parts.is_empty() {
        return None;
    }
    let first = format!("{} {}", title(ours), mean(ours)?);
    Some(format!("{} where all know their classes: {first}; {}", score_title(score), parts.join("; ")))
}
