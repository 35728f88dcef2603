//! FedSI beside simple rivals where everybody predicts the classes that a client has training samples of, and no others.

use fedsi_metrics::{PairedTest, Summary, holm, paired_t_test};

use super::shown;
use crate::cells::SettingCells;
use crate::entry::Source;
use crate::tables::{p_equals, signed};
use crate::text::score_title;

/// A row beside FedSI's on the seeds that both have: its mean, how many seeds, and the test where there are enough of them.
struct Beside {
    title: &'static str,
    mean: f64,
    seeds: usize,
    test: Option<PairedTest>,
}

/// The scores of the rows whose predictions are over own classes alone, first FedSI's, with the difference of each other from
/// it, paired over the seeds that both have and corrected for their number. None where FedSI's row or all others have not been
/// run.
#[must_use]
pub fn over_own_classes(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let ours = cells.rows.iter().position(|row| row.entry.is_fedsi_over_own_classes())?;
    let own = cells.by_seed(ours, score);
    let mean = Summary::of(own.values().copied())?.mean;
    let rounds = cells.rows[ours].rounds;
    let is_wanted = |row: &usize| cells.rows[*row].rounds == rounds && is_comparable(cells, *row, score);
    let beside = |row: usize| {
        let found = cells.by_seed(row, score);
        let pairs: Vec<(f64, f64)> =
            found.iter().filter_map(|(seed, value)| Some((*own.get(seed)?, *value))).collect();
        let mean = Summary::of(pairs.iter().map(|pair| pair.1))?.mean;
        let (title, test) = (cells.rows[row].entry.title, paired_t_test(&pairs));
        Some(Beside { title, mean, seeds: pairs.len(), test })
    };
    let all: Vec<Beside> = (0..cells.rows.len()).filter(is_wanted).filter_map(beside).collect();
    if all.is_empty() {
        return None;
    }
    let p: Vec<f64> = all.iter().filter_map(|beside| Some(beside.test.as_ref()?.p)).collect();
    let tests = p.len();
    let mut corrected = holm(&p).into_iter();
    let (title, first) = (cells.rows[ours].entry.title, shown(score, mean));
    let mut text = format!("{} where all know their classes: {title} {first}", score_title(score));
    for Beside { title, mean, seeds, test } in all {
        let count = format!("{seeds} seed{}", if seeds == 1 { "" } else { "s" });
        let how_sure = match test {
            Some(test) => {
                let [low, high]: [f64; 2] = test.interval.into();
                let p = corrected.next().unwrap_or(1.0);
                format!(
                    "FedSI (own classes) minus it: {}, 95% interval {} to {}, {} after Holm over {tests}, {count}",
                    signed(score, test.mean),
                    signed(score, low),
                    signed(score, high),
                    p_equals(p)
                )
            }
            None => format!("{count}: no test"),
        };
        text.push_str(&format!("; {title} {} ({how_sure})", shown(score, mean)));
    }
    Some(text)
}

/// Whether a row is of that kind, and its score means the same there: pooled data has its temperature from a network of all
/// classes, so that its probabilities are not compared.
fn is_comparable(cells: &SettingCells<'_>, row: usize, score: &str) -> bool {
    let entry = cells.rows[row].entry;
    match entry.source {
        Source::OwnClasses => !entry.is_fedsi_over_own_classes(),
        Source::PooledOwnClasses => matches!(score, "accuracy" | "aurc"),
        _ => false,
    }
}
