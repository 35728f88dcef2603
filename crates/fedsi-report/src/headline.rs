//! The top of a run's page: what its scores allow to say, and the clients that differ from the rest.

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_metrics::{AbstentionGoal, worst_tenth};
use fedsi_run::Summary;

use crate::RunFiles;
use crate::client_verdict::{ClientFindings, FlaggedClient};
use crate::ood::OodReport;
use crate::run_verdict::{confidence_gap, interval_note, over_clients, run_levels, run_verdict};
use crate::series::RunSeries;
use crate::tile::Tile;
use crate::words::{digits_for, number_range, percent, percent_range, points, points_range};

/// What the top of the page says.
pub(crate) struct Headline {
    /// Sentences, the most important first.
    pub(crate) verdict: Vec<String>,
    /// One sentence where the scores are not of all clients.
    pub(crate) unscored: Option<String>,
    pub(crate) tiles: Vec<Tile>,
    /// What the intervals are of.
    pub(crate) intervals: Option<&'static str>,
    /// Clients without scores, and those that differ from the rest by more than chance.
    pub(crate) flagged: Vec<FlaggedClient>,
    /// What is to be said of the others.
    pub(crate) others: Vec<String>,
}

/// Clients without test data named one by one.
const MAX_UNTESTED: usize = 3;

impl Headline {
    pub(crate) fn of(files: &RunFiles, series: Option<&RunSeries>, clients: &mut ClientFindings) -> Self {
        let summary = &files.summary;
        let mut verdict = run_verdict(summary);
        let tiles = match series {
            _ if verdict.is_empty() => Vec::new(),
            Some(RunSeries::Classes { pooled, .. }) => classes(files, pooled.unseen_auroc),
            Some(RunSeries::Values { .. }) => values(summary),
            None => Vec::new(),
        };
        if verdict.is_empty() {
            verdict.push("No client has test data that could be scored: nothing was evaluated.".to_owned());
        }
        let mut flagged = unscored(summary);
        flagged.append(&mut clients.flagged);
        let mut others = Vec::new();
        if clients.compared > 1 && flagged.is_empty() {
            others.push(format!(
                "None of {} clients differs from the others by more than chance.",
                clients.compared
            ));
        }
        others.extend(clients.too_few_sentence());
        Self {
            verdict,
            unscored: summary.unscored_sentence().map(|sentence| format!("{sentence}.")),
            tiles,
            intervals: interval_note(summary),
            flagged,
            others,
        }
    }
}

fn tile(name: &str, value: String, note: impl Into<String>) -> Tile {
    Tile { name: name.to_owned(), value, note: note.into() }
}

/// `; 95% interval 0.0012 to 0.0034`, or nothing.
fn interval(ends: Option<[f64; 2]>, words: impl Fn([f64; 2]) -> String) -> String {
    ends.map_or_else(String::new, |ends| format!("; 95% interval {}", words(ends)))
}

fn classes(files: &RunFiles, unseen_auroc: Option<f64>) -> Vec<Tile> {
    let (summary, details) = (&files.summary, &files.summary.details);
    let Scores::Classification {
        accuracy: Some(accuracy),
        ece: Some(ece),
        mce_1pct,
        aurc,
        ece_floor,
        balanced_accuracy,
        ..
    } = summary.scores
    else {
        return Vec::new();
    };
    let note = format!("{}{}", over_clients(summary), interval(details.interval("accuracy"), percent_range));
    let mut tiles = vec![tile("accuracy", percent(accuracy), note)];
    if let Some(majority) = details.majority_accuracy {
        let above = interval(details.interval("above_majority"), |ends| {
            format!("of the difference {}", points_range(ends))
        });
        let note = format!(
            "accuracy of always answering a client's most frequent class, {}{above}",
            over_clients(summary)
        );
        tiles.push(tile("most frequent class", percent(majority), note));
    }
    if let Some(balanced) = balanced_accuracy {
        let note = format!(
            "mean recall over classes, all test rows{}",
            interval(details.interval("balanced_accuracy"), percent_range)
        );
        tiles.push(tile("balanced accuracy", percent(balanced), note));
    }
    tiles.extend(worst(summary));
    if let Some((found, gap, ends)) = confidence_gap(summary) {
        let note = format!("points, all test rows: {}; 95% interval {}", found.word(), points_range(ends));
        tiles.push(tile("confidence minus accuracy", points(gap), note));
    }
    let floor = ece_floor.map_or_else(String::new, |floor| format!("; {floor:.4} by chance alone"));
    let gap = mce_1pct
        .map_or_else(String::new, |gap| format!("; largest gap of bins with 1% of the rows {gap:.2}"));
    let ends = interval(details.interval("ece"), |ends| number_range(ends, 4));
    tiles.push(tile(
        "calibration error",
        format!("{ece:.4}"),
        format!("ECE, all test rows{ends}{floor}{gap}"),
    ));
    tiles.extend(abstention(&files.predictions));
    if let Some(aurc) = aurc {
        let ends = interval(details.interval("aurc"), |ends| number_range(ends, 4));
        let note =
            format!("mean error rate over all coverages, the surest answered first; 0 is perfect{ends}");
        tiles.push(tile("AURC", format!("{aurc:.4}"), note));
    }
    if let Some(area) = details.auroc {
        let note = "one class against the rest, mean over classes; 1 is perfect, 0.5 is chance";
        tiles.push(tile("AUROC", format!("{area:.3}"), note));
    }
    tiles.extend(detection(files.ood.as_ref(), unseen_auroc));
    tiles
}

/// What the worst tenth of clients get.
fn worst(summary: &Summary) -> Option<Tile> {
    let (mean, count) = worst_tenth(summary.clients.iter().filter_map(|client| client.scores.accuracy()))?;
    let scored = summary.coverage().scored_clients;
    let whom = match count {
        1 => "the lowest of".to_owned(),
        _ => format!("mean of the {count} lowest of"),
    };
    (scored > 1).then(|| {
        let note = format!("accuracy, {whom} {scored} clients; lower than the mean by chance as well");
        tile("worst tenth of clients", percent(mean), note)
    })
}

/// How well samples of classes that a client never saw are told from its own.
fn detection(ood: Option<&OodReport>, unseen_auroc: Option<f64>) -> Option<Tile> {
    let measured = ood.and_then(|report| report.sets.iter().find(|set| set.inputs == "unseen classes"));
    let name = "detection of unseen classes";
    if let Some((set, strangeness)) = measured.and_then(|set| Some((set, set.auroc_strangeness?))) {
        let entropy = set.auroc_entropy.map_or_else(String::new, |area| format!("; of entropy {area:.2}"));
        let note = format!("AUROC of strangeness{entropy} (fedsi ood); 1 is perfect, 0.5 is chance");
        return Some(tile(name, format!("{strangeness:.2}"), note));
    }
    let note = "AUROC of entropy; 1 is perfect, 0.5 is chance. That of strangeness: fedsi ood";
    unseen_auroc.map(|area| tile(name, format!("{area:.2}"), note))
}

/// What abstaining on a fifth is worth: thresholds from half of the rows, evaluated on the other half.
fn abstention(predictions: &Predictions) -> Option<Tile> {
    let Predictions::Classes { classes, probabilities, labels } = predictions else { return None };
    let rows = fedsi_metrics::Predictions::new(probabilities, labels, *classes).ok()?;
    let (uncertainty, correct): (Vec<f64>, Vec<bool>) =
        rows.rows().map(|row| (1.0 - row.confidence(), row.is_correct())).unzip();
    let found = fedsi_metrics::cross_fitted(&uncertainty, &correct, AbstentionGoal::Coverage(0.8)).ok()??;
    let wrong = interval(fedsi_metrics::wilson(found.wrong, found.answered), percent_range);
    let note = format!(
        "all test rows{wrong}; {} when all are answered. Thresholds from half of the rows, evaluated on the other half, where \
         they answer {}",
        percent(1.0 - rows.accuracy()?),
        percent(found.coverage())
    );
    Some(tile("error rate at 80% coverage", percent(found.risk()?), note))
}

fn values(summary: &Summary) -> Vec<Tile> {
    let details = &summary.details;
    let Scores::Regression { rmse: Some(rmse), mae: Some(mae), nll: Some(nll), .. } = summary.scores else {
        return Vec::new();
    };
    let error = |name: &str, key: &str, value: f64, words: &str| {
        let digits = digits_for(value);
        let ends = interval(details.interval(key), |ends| number_range(ends, digits));
        tile(name, format!("{value:.digits$}"), format!("{words}, in the data's unit{ends}"))
    };
    let mut tiles = vec![
        error("RMSE", "rmse", rmse, "root of the mean squared error"),
        error("MAE", "mae", mae, "mean absolute error"),
    ];
    for found in run_levels(summary) {
        let name = format!("inside the {:.0}% interval", 100.0 * found.level);
        tiles.push(tile(
            &name,
            percent(found.share),
            format!("95% interval {}", percent_range(found.interval)),
        ));
    }
    let ends = interval(details.interval("nll"), |ends| number_range(ends, 3));
    tiles.push(tile("NLL", format!("{nll:.3}"), format!("negative log likelihood, lower is better{ends}")));
    tiles
}

/// Clients that were not evaluated: they are what the scores do not show.
fn unscored(summary: &Summary) -> Vec<FlaggedClient> {
    let flag = |client: &fedsi_run::ClientScores, reason: String| FlaggedClient {
        id: client.id,
        name: client.label(),
        reason,
    };
    let (failed, more) = summary.unscored_clients();
    let last = failed.len();
    let mut all: Vec<FlaggedClient> = failed
        .iter()
        .enumerate()
        .map(|(place, (client, reason))| {
            let more = if more > 0 && place + 1 == last {
                format!("; {more} more clients could not be scored")
            } else {
                String::new()
            };
            flag(client, format!("not scored: {reason}{more}"))
        })
        .collect();
    let untested = summary.clients.iter().filter(|client| client.samples == 0).take(MAX_UNTESTED);
    all.extend(untested.map(|client| flag(client, format!("not scored: {}", client.unscored_reason()))));
    all
}
