//! The page of predictions that came in a file: no run, no training, the predictions alone.

use std::path::{Path, PathBuf};

use askama::Template;
use fedsi_fl::scores::{Figure, Scores};
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Bins, Predictions};

use crate::ReportError;
use crate::format::{counted, grouped};
use crate::output::{PdfPlots, RenderedPage};
use crate::plots::{Captioned, class_plots, value_plots};

/// The plots of such a page: no others are written into its folder.
pub const CALIBRATION_PLOTS: [&str; 5] =
    ["reliability", "risk-coverage", "confidence", "interval-coverage", "residuals"];

/// Clients and classes that a page lists: of more, those with the worst scores.
const MAX_LISTED: usize = 1_000;

/// Deviations of chance beyond which a calibration error is no chance.
const DEVIATIONS: f64 = 2.0;

/// Predictions beside what is true.
#[derive(Clone, Copy, Debug)]
pub enum CalibratedRows<'a> {
    /// Of classes, with their names where they have any.
    Classes {
        /// The probabilities and labels.
        rows: Predictions<'a, f64>,
        /// Names, or nothing.
        names: &'a [String],
    },
    /// Of values.
    Values {
        /// Means, variances and targets, checked.
        rows: GaussianPredictions<'a>,
        /// The means.
        mean: &'a [f64],
        /// The variances.
        variance: &'a [f64],
        /// The true values.
        targets: &'a [f64],
    },
}

/// One client's scores.
#[derive(Clone, Debug)]
pub struct CalibratedClient {
    /// Its name, or its number as text.
    pub name: String,
    /// Its predictions.
    pub samples: usize,
    /// Its scores.
    pub scores: Scores,
}

/// What the page shows.
#[derive(Clone, Copy, Debug)]
pub struct Calibration<'a> {
    /// The file's name.
    pub title: &'a str,
    /// The predictions.
    pub rows: &'a CalibratedRows<'a>,
    /// Their scores, all together.
    pub scores: &'a Scores,
    /// Every client's, where clients are known.
    pub clients: &'a [CalibratedClient],
    /// Bins of the reliability diagram.
    pub bins: Bins,
}

#[derive(Template)]
#[template(path = "calibrate.html")]
struct CalibrationPage<'a> {
    title: &'a str,
    about: String,
    verdict: String,
    figures: Vec<Figure>,
    plots: &'a [Captioned],
    classes: Vec<ClassRow>,
    clients: Vec<ClientRow>,
    client_names: Vec<&'static str>,
    unlisted: usize,
}

/// A row of the table of classes.
struct ClassRow {
    name: String,
    samples: String,
    precision: String,
    recall: String,
}

/// A row of the table of clients.
struct ClientRow {
    name: String,
    samples: String,
    figures: Vec<Figure>,
}

/// Makes `report.html` and `plots/` in a folder. Returns the page's path. Costs a few passes over the predictions.
///
/// # Errors
/// A page or plot that cannot be drawn or written.
pub fn write_calibration(folder: &Path, calibration: &Calibration<'_>) -> Result<PathBuf, ReportError> {
    let Calibration { title, rows, scores, clients, bins } = *calibration;
    let (samples, plots, classes) = match rows {
        CalibratedRows::Classes { rows, names } => {
            (rows.len(), class_plots(rows, bins)?, class_rows(rows, names))
        }
        CalibratedRows::Values { rows, mean, variance, targets } => {
            (rows.len(), value_plots(rows, [mean, variance, targets])?, Vec::new())
        }
    };
    let mut about = counted(samples, "prediction");
    if !clients.is_empty() {
        about.push_str(&format!(" of {}", counted(clients.len(), "client")));
    }
    let mut order: Vec<&CalibratedClient> = clients.iter().collect();
    if order.len() > MAX_LISTED {
        let nll = |client: &CalibratedClient| client.scores.nll().unwrap_or(f64::NEG_INFINITY);
        order.sort_by(|a, b| nll(b).total_cmp(&nll(a)));
        order.truncate(MAX_LISTED);
    }
    let row = |client: &&CalibratedClient| ClientRow {
        name: fedsi_data::display_name(&client.name),
        samples: grouped(client.samples as f64),
        figures: client.scores.figures(),
    };
    let page = CalibrationPage {
        title,
        about,
        verdict: verdict(scores, samples),
        figures: scores.figures(),
        plots: &plots,
        classes,
        clients: order.iter().map(row).collect(),
        client_names: scores.figures().iter().map(|figure| figure.name).collect(),
        unlisted: clients.len() - order.len(),
    };
    let text = page.render().map_err(|error| ReportError::Drawing(error.to_string()))?;
    let plots = plots.into_iter().map(|captioned| captioned.plot).collect();
    crate::output::write(
        folder,
        &RenderedPage { page: text, readers: fedsi_run::Readers::Umask, plots },
        PdfPlots::Existing,
    )
}

fn class_rows(rows: &Predictions<'_, f64>, names: &[String]) -> Vec<ClassRow> {
    let share =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}%", 100.0 * value));
    let of = |(class, counts): (usize, fedsi_metrics::ClassCounts)| ClassRow {
        name: names.get(class).map_or_else(|| class.to_string(), |name| fedsi_data::display_name(name)),
        samples: grouped(counts.samples as f64),
        precision: share(counts.precision()),
        recall: share(counts.recall()),
    };
    rows.class_counts().into_iter().enumerate().take(MAX_LISTED).map(of).collect()
}

/// One or two sentences; what chance could have done is not called anything else.
fn verdict(scores: &Scores, samples: usize) -> String {
    match *scores {
        Scores::Classification {
            accuracy: Some(accuracy), ece: Some(ece), ece_floor, ece_floor_std, ..
        } => {
            let (floor, deviation) = (ece_floor.unwrap_or(0.0), ece_floor_std.unwrap_or(0.0));
            let right = format!("Right for {:.1}% of {}.", 100.0 * accuracy, counted(samples, "prediction"));
            let calibration = if ece <= floor + DEVIATIONS * deviation {
                format!(
                    "The calibration error of {ece:.4} is what chance gives a perfectly calibrated model \
                     ({floor:.4} ± {deviation:.4})."
                )
            } else {
                format!(
                    "The calibration error of {ece:.4} is more than chance gives a perfectly calibrated model \
                     ({floor:.4} ± {deviation:.4})."
                )
            };
            format!("{right} {calibration}")
        }
        Scores::Regression { coverage_50: Some(half), coverage_90: Some(inside), .. } => {
            // Of independent rows; of several outputs of a row it is the least that can be.
            let error = |level: f64| DEVIATIONS * (level * (1.0 - level) / samples.max(1) as f64).sqrt();
            let found = [(0.5, half), (0.9, inside)];
            let words = if found.iter().all(|(level, share)| (share - level).abs() <= error(*level)) {
                "as far as so many rows can tell, the intervals hold what they say"
            } else if found.iter().all(|(level, share)| *share >= level - error(*level)) {
                "the intervals are too wide"
            } else if found.iter().all(|(level, share)| *share <= level + error(*level)) {
                "the intervals are too narrow"
            } else {
                "the intervals have the wrong shape: too wide at one level, too narrow at the other"
            };
            format!(
                "{:.1}% of targets lie in their 90% interval and {:.1}% in their 50% interval, of {}: {words}.",
                100.0 * inside,
                100.0 * half,
                counted(samples, "prediction")
            )
        }
        Scores::Classification { .. } | Scores::Regression { .. } => "Nothing was scored.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_what_chance_could_do() {
        let scores = |p: &[f64], labels: &[u32]| {
            Scores::classification(Predictions::new(p, labels, 2).unwrap().scores(Bins::default()))
        };
        // One of two right at 50%: nothing but chance.
        assert!(verdict(&scores(&[0.5, 0.5, 0.5, 0.5], &[0, 1]), 2).contains("is what chance gives"));
        let (sure, wrong) = ([0.99, 0.01].repeat(50), [1; 50]);
        let text = verdict(&scores(&sure, &wrong), 50);
        assert!(
            text.starts_with("Right for 0.0% of 50 predictions.") && text.contains("is more than chance"),
            "{text}"
        );
    }

    #[test]
    fn intervals_are_judged_at_two_levels() {
        let said = |errors: &[f64], variance: f64| {
            let (mean, variances) = (vec![0.0; errors.len()], vec![variance; errors.len()]);
            let rows = GaussianPredictions::new(&mean, &variances, errors, 1).unwrap();
            verdict(&Scores::regression(rows.scores()), errors.len())
        };
        let errors: Vec<f64> = (0..400).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert!(said(&errors, 100.0).contains("too wide"));
        assert!(said(&errors, 0.01).contains("too narrow"));
        assert!(said(&errors, 1.0).contains("wrong shape"), "{}", said(&errors, 1.0));
    }

    #[test]
    fn names_are_escaped_and_every_client_has_a_row() {
        let labels = [0, 1];
        let rows = Predictions::new(&[0.9, 0.1, 0.2, 0.8], &labels, 2).unwrap();
        let scores = Scores::classification(rows.scores(Bins::default()));
        let names = ["<b>a".to_owned(), "b".to_owned()];
        let clients = [CalibratedClient { name: "<i>x".to_owned(), samples: 2, scores }];
        let calibration = Calibration {
            title: "<u>file",
            rows: &CalibratedRows::Classes { rows, names: &names },
            scores: &scores,
            clients: &clients,
            bins: Bins::default(),
        };
        let folder = tempfile::tempdir().unwrap();
        let page = std::fs::read_to_string(write_calibration(folder.path(), &calibration).unwrap()).unwrap();
        for tag in ["<b>a", "<i>x", "<u>file"] {
            assert!(!page.contains(tag), "{tag} is not escaped");
        }
        assert!(
            page.contains("data-plot=\"confidence\"")
                && !page.contains("http://")
                && !page.contains("https://")
        );
        for name in ["reliability", "risk-coverage", "confidence"] {
            assert!(
                CALIBRATION_PLOTS.contains(&name)
                    && folder.path().join(format!("plots/{name}.svg")).is_file()
            );
        }
    }
}
