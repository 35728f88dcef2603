//! Conformal sets or intervals of a run: what is promised, and what was found, by client.

use fedsi_fl::client::Predictions;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{
    ConformalCoverage, binomial_below, conformal_intervals_found, conformal_sets_found,
    fewest_calibration_samples, holm, wilson,
};

use crate::RunFiles;
use crate::run_verdict::LEVEL as SIGNIFICANT;
use crate::words::{digits_for, list, percent, percent_range};

/// The coverage that is promised.
const PROMISED: f64 = 0.9;

/// Clients listed: of more, those that found the least.
const MAX_ROWS: usize = 40;

/// Clients named in the verdict.
const MAX_NAMED: usize = 5;

/// What conformal prediction would give on this run's test rows.
pub(crate) struct ConformalSection {
    /// Whether it is about sets of classes, not intervals.
    pub(crate) is_classes: bool,
    /// Sentences.
    pub(crate) verdict: Vec<String>,
    pub(crate) rows: Vec<ConformalRow>,
    /// Clients that the table leaves out.
    pub(crate) unlisted: usize,
}

/// One client.
pub(crate) struct ConformalRow {
    pub(crate) name: String,
    pub(crate) samples: usize,
    pub(crate) found: String,
    pub(crate) interval: String,
    pub(crate) size: String,
    pub(crate) calibrated_by: &'static str,
}

/// One output's findings for each client.
struct Found {
    client: usize,
    name: String,
    samples: usize,
    covered: usize,
    size: f64,
    own: bool,
}

impl ConformalSection {
    /// Of a run's predictions; none where nothing was predicted. With several outputs, of the first.
    pub(crate) fn of(files: &RunFiles) -> Option<Self> {
        let (is_classes, found) = match &files.predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let rows = fedsi_metrics::Predictions::new(probabilities, labels, *classes).ok()?;
                (true, conformal_sets_found(&rows, &files.owners, PROMISED).ok()?)
            }
            Predictions::Values { outputs, mean, variance, targets } => {
                let rows = GaussianPredictions::new(mean, variance, targets, *outputs).ok()?;
                let mut all = conformal_intervals_found(&rows, &files.owners, PROMISED).ok()?;
                (false, if all.is_empty() { Vec::new() } else { all.swap_remove(0) })
            }
        };
        if files.predictions.is_empty() {
            return None;
        }
        let name = |id: usize| {
            let client = files.summary.clients.iter().find(|client| client.id == id);
            client.map_or_else(|| id.to_string(), fedsi_run::ClientScores::label)
        };
        let named = |one: ConformalCoverage| Found {
            client: one.client,
            name: name(one.client),
            samples: one.samples,
            covered: one.covered,
            size: one.mean_size,
            own: one.own,
        };
        Some(Self::from_found(is_classes, found.into_iter().map(named).collect(), files.predictions.len()))
    }

    fn from_found(is_classes: bool, mut found: Vec<Found>, rows: usize) -> Self {
        if found.is_empty() {
            let fewest = fewest_calibration_samples(PROMISED);
            let verdict = vec![format!(
                "{rows} test rows are too few to calibrate sets for {:.0}%: it takes {fewest}.",
                100.0 * PROMISED
            )];
            return Self { is_classes, verdict, rows: Vec::new(), unlisted: 0 };
        }
        let mut verdict = vec![overall(&found, is_classes)];
        verdict.extend(differing(&found));
        found.sort_by(|a, b| {
            let share = |one: &Found| one.covered as f64 / one.samples.max(1) as f64;
            share(a).total_cmp(&share(b)).then(a.client.cmp(&b.client))
        });
        let unlisted = found.len().saturating_sub(MAX_ROWS);
        found.truncate(MAX_ROWS);
        let row = |one: Found| {
            let digits = if is_classes { 2 } else { digits_for(one.size) };
            ConformalRow {
                name: one.name,
                samples: one.samples,
                found: percent(one.covered as f64 / one.samples.max(1) as f64),
                interval: wilson(one.covered, one.samples).map_or_else(|| "-".to_owned(), percent_range),
                size: format!("{:.digits$}", one.size),
                calibrated_by: if one.own { "its own rows" } else { "all clients' rows" },
            }
        };
        Self { is_classes, verdict, rows: found.into_iter().map(row).collect(), unlisted }
    }
}

/// All rows together, in words chosen by the interval.
fn overall(found: &[Found], is_classes: bool) -> String {
    let (rows, covered) =
        found.iter().fold((0, 0), |(rows, covered), one| (rows + one.samples, covered + one.covered));
    let size = found.iter().map(|one| one.size * one.samples as f64).sum::<f64>() / rows.max(1) as f64;
    let interval = wilson(covered, rows).unwrap_or([0.0, 1.0]);
    let words = match interval {
        [_, high] if high < PROMISED => "less than promised",
        [low, _] if low > PROMISED => "more than promised, which is no fault",
        _ => "what was promised, as far as chance lets one tell",
    };
    let size = if is_classes {
        format!("sets have {size:.2} classes on average")
    } else {
        let digits = digits_for(size);
        format!("intervals are {size:.digits$} wide on average, in the data's unit")
    };
    format!(
        "Promised {:.0}%, found {} of {rows} test rows (95% interval {}): {words}; {size}.",
        100.0 * PROMISED,
        percent(covered as f64 / rows.max(1) as f64),
        percent_range(interval)
    )
}

/// Clients for whom it is less than promised by more than chance, after Holm's correction.
fn differing(found: &[Found]) -> Option<String> {
    let tests: Vec<f64> =
        found.iter().map(|one| binomial_below(one.covered, one.samples, PROMISED)).collect();
    let corrected = found.iter().zip(holm(&tests));
    let missed: Vec<&Found> = corrected.filter(|(_, p)| *p < SIGNIFICANT).map(|(one, _)| one).collect();
    if found.len() < 2 {
        return None;
    }
    if missed.is_empty() {
        return Some(format!("For none of {} clients is it less by more than chance.", found.len()));
    }
    let mut names: Vec<String> = missed.iter().take(MAX_NAMED).map(|one| one.name.clone()).collect();
    if missed.len() > MAX_NAMED {
        names.push(format!("{} more", missed.len() - MAX_NAMED));
    }
    let plural = if missed.len() == 1 { "client" } else { "clients" };
    Some(format!("Less than promised by more than chance for {plural} {}.", list(&names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of: &[(usize, usize)]) -> Vec<Found> {
        let one = |(client, &(samples, covered)): (usize, &(usize, usize))| Found {
            client,
            name: format!("{client} site"),
            samples,
            covered,
            size: 1.5,
            own: samples >= 100,
        };
        of.iter().enumerate().map(one).collect()
    }

    #[test]
    fn words_follow_intervals() {
        let said =
            |of: &[(usize, usize)]| ConformalSection::from_found(true, found(of), 300).verdict.join(" ");
        let kept = said(&[(200, 181), (100, 89)]);
        assert!(kept.starts_with(
            "Promised 90%, found 90.0% of 300 test rows (95% interval 86.1 to 92.9%): what was"
        ));
        assert!(kept.ends_with("For none of 2 clients is it less by more than chance."), "{kept}");
        // P(X <= 22) of 30 at 0.9 is 0.0078, of five clients 0.039.
        let few = said(&[(30, 22), (50, 45), (80, 72), (100, 91), (140, 135)]);
        assert!(few.ends_with("Less than promised by more than chance for client 0 site."), "{few}");
        let broken = said(&[(200, 181), (100, 60)]);
        assert!(broken.contains("less than promised; sets have 1.50"), "{broken}");
        assert!(broken.ends_with("Less than promised by more than chance for client 1 site."), "{broken}");
        assert!(said(&[(1_000, 960)]).contains("more than promised"));
        assert_eq!(said(&[]), "300 test rows are too few to calibrate sets for 90%: it takes 100.");
    }

    #[test]
    fn the_least_covered_come_first_and_many_are_cut() {
        let of: Vec<(usize, usize)> = (0..50).map(|client| (100, 50 + client)).collect();
        let section = ConformalSection::from_found(false, found(&of), 5_000);
        assert_eq!((section.rows.len(), section.unlisted, section.rows[0].found.as_str()), (40, 10, "50.0%"));
        assert_eq!((section.rows[0].calibrated_by, section.rows[0].size.as_str()), ("its own rows", "1.50"));
    }
}
