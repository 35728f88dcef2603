//! FedSI beside networks that were trained on everybody's data in one place: what keeping data apart costs, or gains.

use fedsi_metrics::paired_t_test;

use super::shown;
use crate::cells::SettingCells;
use crate::entry::Source;
use crate::tables::{p_equals, signed};
use crate::text::score_title;

/// FedSI's score beside that of each network of pooled data on the same seeds, with the difference from the one that clients
/// tuned, paired over seeds. None where FedSI or all of them have not been run.
#[must_use]
pub fn beside_pooled(cells: &SettingCells<'_>, score: &str) -> Option<String> {
    let ours = cells.by_seed(cells.reference()?, score);
    let mut parts = Vec::new();
    for (row, own) in cells.rows.iter().enumerate().filter(|(_, own)| own.entry.source.is_pooled()) {
        let pairs: Vec<(f64, f64)> = cells
            .by_seed(row, score)
            .iter()
            .filter_map(|(seed, value)| Some((*ours.get(seed)?, *value)))
            .collect();
        let count = pairs.len();
        let Some(mean) = fedsi_metrics::Summary::of(pairs.iter().map(|pair| pair.1)) else { continue };
        let mut text = format!("{} {}", own.entry.title, shown(score, mean.mean));
        // The other one is scored as one client that has all classes.
        if own.entry.source == Source::PooledTuned {
            let test = paired_t_test(&pairs).map(|test| {
                let [low, high]: [f64; 2] = test.interval.into();
                let difference = signed(score, (low + high) / 2.0);
                let ends = format!("{} to {}", signed(score, low), signed(score, high));
                format!(
                    "FedSI minus it: {difference}, 95% interval {ends}, {}, not corrected",
                    p_equals(test.p)
                )
            });
            let few = || format!("{count} seed{}: no test", if count == 1 { "" } else { "s" });
            text.push_str(&format!(" ({})", test.unwrap_or_else(few)));
        }
        parts.push(text);
    }
    (!parts.is_empty())
        .then(|| format!("{} beside one place for all data: {}", score_title(score), parts.join("; ")))
}
