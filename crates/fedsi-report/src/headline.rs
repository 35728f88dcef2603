//! The top of a run's page: accuracy, calibration, and the clients with the worst scores.

use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_metrics::AbstentionGoal;
use fedsi_run::{ClientScores, Summary};

use crate::RunFiles;
use crate::series::RunSeries;

/// One large number with what it means.
pub(crate) struct Tile {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) note: String,
}

/// What the top of the page says.
pub(crate) struct Headline {
    /// One sentence.
    pub(crate) verdict: String,
    /// One sentence where the scores are not of all clients.
    pub(crate) unscored: Option<String>,
    pub(crate) tiles: Vec<Tile>,
    /// Clients with the worst scores or without any, and why.
    pub(crate) flagged: Vec<FlaggedClient>,
}

/// A client with a bad score or none.
pub(crate) struct FlaggedClient {
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// A calibration error that changes no decision.
const GOOD: f64 = 0.02;
/// One that is noticed.
const FAIR: f64 = 0.05;
/// Clients without test data named one by one.
const MAX_UNTESTED: usize = 3;
impl Headline {
    pub(crate) fn of(files: &RunFiles, series: Option<&RunSeries>) -> Self {
        let (verdict, tiles) = match (&files.summary.scores, series) {
            (Scores::Classification { .. }, Some(RunSeries::Classes { .. })) => classes(files, series),
            (Scores::Regression { .. }, Some(RunSeries::Values { .. })) => {
                values(&files.summary.scores, files.predictions.len())
            }
            _ => ("No client has test data: nothing was evaluated.".to_owned(), Vec::new()),
        };
        let unscored = files.summary.unscored_sentence().map(|sentence| format!("{sentence}."));
        Self { verdict, unscored, tiles, flagged: flagged(&files.summary) }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn classes(files: &RunFiles, series: Option<&RunSeries>) -> (String, Vec<Tile>) {
    let (
        Scores::Classification {
            accuracy: Some(accuracy),
            ece: Some(ece),
            mce_1pct,
            aurc,
            ece_floor,
            ece_floor_std,
            ..
        },
        Some(RunSeries::Classes { pooled, .. }),
    ) = (files.summary.scores, series)
    else {
        return ("Nothing was evaluated.".to_owned(), Vec::new());
    };
    let over = pooled.overconfidence();
    // Below this an error is what chance gives a calibrated model.
    let noise = ece_floor.zip(ece_floor_std).map_or(0.0, |(mean, deviation)| mean + 2.0 * deviation);
    let verdict = match ece {
        _ if ece > GOOD && ece <= noise => "too few test samples to tell its calibration from a perfect one",
        _ if ece <= GOOD => "well calibrated: its confidence can be trusted",
        _ if ece <= FAIR && over > 0.0 => "slightly overconfident",
        _ if ece <= FAIR => "slightly underconfident",
        _ if over > 0.0 => "overconfident: its confidence is too high to be trusted",
        _ => "underconfident: its confidence is too low",
    };
    let direction = match over {
        _ if over >= 0.0005 => "overconfident",
        _ if over <= -0.0005 => "underconfident",
        _ => "calibrated on average",
    };
    // No sign before a zero.
    let over = if over.abs() < 0.0005 { 0.0 } else { over };
    let coverage = files.summary.coverage();
    let note = match (coverage.scored_clients, coverage.total_clients, coverage.accuracy_all) {
        (scored, all, _) if scored == all => "mean over clients".to_owned(),
        (scored, all, Some(over_all)) if scored < coverage.tested_clients => format!(
            "mean over the {scored} of {all} clients that were scored; {} if the others count as wrong",
            percent(over_all)
        ),
        (scored, all, _) => format!("mean over the {scored} of {all} clients with test data"),
    };
    let mut tiles = vec![
        Tile { name: "accuracy".to_owned(), value: percent(accuracy), note },
        Tile {
            name: "calibration error".to_owned(),
            value: format!("{ece:.4}"),
            note: format!(
                "ECE{}; largest gap {:.2}",
                floor_note(ece_floor, ece_floor_std),
                mce_1pct.unwrap_or(0.0)
            ),
        },
        Tile {
            name: "confidence minus accuracy".to_owned(),
            value: format!("{:+.1}", 100.0 * over),
            note: format!("percentage points: {direction}"),
        },
    ];
    if let Some(aurc) = aurc {
        tiles.push(Tile {
            name: "AURC".to_owned(),
            value: format!("{aurc:.5}"),
            note: "mean error rate over all coverages, the surest answered first; 0 is perfect".to_owned(),
        });
    }
    tiles.extend(abstention(&files.predictions));
    if let Some(area) = pooled.unseen_auroc {
        tiles.push(Tile {
            name: "detection of unseen classes".to_owned(),
            value: format!("{area:.2}"),
            note: "AUROC of entropy, 1 is perfect, 0.5 is chance".to_owned(),
        });
    }
    let over = if coverage.scored_clients < coverage.tested_clients {
        " over the clients that were scored"
    } else {
        ""
    };
    (format!("Accuracy {}{over}; {verdict}.", percent(accuracy)), tiles)
}

/// What perfect calibration would have by chance.
fn floor_note(mean: Option<f64>, deviation: Option<f64>) -> String {
    match (mean, deviation) {
        (Some(mean), Some(deviation)) => {
            format!("; floor {mean:.4} ± {deviation:.4}: what perfect calibration has by chance")
        }
        _ => ", 0 is perfect".to_owned(),
    }
}

/// What abstaining on a fifth is worth: thresholds from half of the samples, judged on the other half.
fn abstention(predictions: &Predictions) -> Option<Tile> {
    let Predictions::Classes { classes, probabilities, labels } = predictions else { return None };
    let rows = fedsi_metrics::Predictions::new(probabilities, labels, *classes).ok()?;
    let (uncertainty, correct): (Vec<f64>, Vec<bool>) =
        rows.rows().map(|row| (1.0 - row.confidence(), row.is_correct())).unzip();
    let judged =
        fedsi_metrics::cross_fitted(&uncertainty, &correct, AbstentionGoal::Coverage(0.8)).ok()??;
    Some(Tile {
        name: "error rate at 80% coverage".to_owned(),
        value: percent(judged.risk()?),
        note: format!(
            "{} at full coverage; thresholds from half of the samples, judged on the other half, where they answer {}",
            percent(1.0 - rows.accuracy()?),
            percent(judged.coverage())
        ),
    })
}

fn values(scores: &Scores, samples: usize) -> (String, Vec<Tile>) {
    let Scores::Regression {
        rmse: Some(rmse),
        mae: Some(mae),
        nll: Some(nll),
        coverage_90: Some(inside),
        ..
    } = *scores
    else {
        return ("Nothing was evaluated.".to_owned(), Vec::new());
    };
    // Two standard errors of a coverage of 0.9 over this many samples.
    let chance = 2.0 * (0.9 * 0.1 / samples.max(1) as f64).sqrt();
    let verdict = match inside - 0.9 {
        gap if gap.abs() <= chance.max(0.03) => "its intervals are calibrated",
        gap if gap < 0.0 => "its intervals are too narrow: overconfident",
        _ => "its intervals are too wide: underconfident",
    };
    let tile =
        |name: &str, value: String, note: &str| Tile { name: name.to_owned(), value, note: note.to_owned() };
    let tiles = vec![
        tile("typical error (RMSE)", format!("{rmse:.3}"), "in the data's unit"),
        tile("mean absolute error", format!("{mae:.3}"), "in the data's unit"),
        tile("inside the 90% interval", percent(inside), "90% is perfect"),
        tile("negative log likelihood", format!("{nll:.3}"), "lower is better"),
    ];
    (format!("RMSE {rmse:.3}; {verdict}."), tiles)
}

/// The weakest, the least calibrated, and those that were not evaluated.
fn flagged(summary: &Summary) -> Vec<FlaggedClient> {
    let clients = &summary.clients;
    let worst = |of: &dyn Fn(&ClientScores) -> Option<f64>| {
        let scored = clients.iter().filter_map(|client| Some((client, of(client)?)));
        scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.id.cmp(&a.0.id)))
    };
    let mut all = Vec::new();
    let mut add = |client: &ClientScores, reason: String| {
        all.push(FlaggedClient { id: client.id, name: client.label(), reason });
    };
    // Those that failed first: they are what the scores do not show.
    let (failed, more) = summary.unscored_clients();
    for (place, (client, reason)) in failed.iter().enumerate() {
        let more = if more > 0 && place + 1 == failed.len() {
            format!("; {more} more clients could not be scored")
        } else {
            String::new()
        };
        add(client, format!("not scored: {reason}{more}"));
    }
    for client in clients.iter().filter(|client| client.samples == 0).take(MAX_UNTESTED) {
        add(client, format!("not scored: {}", client.unscored_reason()));
    }
    if summary.coverage().scored_clients > 1 {
        if let Some((client, wrong)) = worst(&|client| client.scores.accuracy().map(|right| 1.0 - right)) {
            add(client, format!("lowest accuracy, {}", percent(1.0 - wrong)));
        }
        if let Some((client, ece)) = worst(&|client| match client.scores {
            Scores::Classification { ece, .. } => ece,
            Scores::Regression { .. } => None,
        }) {
            let floor = match client.scores {
                Scores::Classification { ece_floor: Some(floor), .. } => format!(" (floor {floor:.3})"),
                _ => String::new(),
            };
            add(client, format!("largest calibration error, {ece:.3}{floor}"));
        }
        if let Some((client, rmse)) = worst(&|client| match client.scores {
            Scores::Regression { rmse, .. } => rmse,
            Scores::Classification { .. } => None,
        }) {
            add(client, format!("largest error, RMSE {rmse:.3}"));
        }
        if let Some((client, gap)) = worst(&|client| match client.scores {
            Scores::Regression { coverage_90, .. } => coverage_90.map(|inside| (inside - 0.9).abs()),
            Scores::Classification { .. } => None,
        }) {
            add(client, format!("its 90% intervals miss their level by {:.1} points", 100.0 * gap));
        }
    }
    all
}
