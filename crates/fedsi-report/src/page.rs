//! The page of a run.

use askama::Template;
use fedsi_fl::record::{ClientScores, RoundRecord, Scores};
use fedsi_metrics::{Bins, Predictions};

use crate::folder::Predicted;
use crate::{ReportError, RunFiles, plot};

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    files: &'a RunFiles,
    headline: Vec<(&'static str, String)>,
    columns: Vec<&'static str>,
    clients: Vec<(String, usize, Vec<String>)>,
    reliability: Option<String>,
    loss: Option<String>,
    validation: Option<String>,
    left_out: Vec<String>,
}

pub(crate) fn run_page(files: &RunFiles) -> Result<String, ReportError> {
    let named = |scores: &Scores| cells(scores);
    let clients = files.summary.clients.iter().map(|client| {
        let values = named(&client.scores).into_iter().map(|(_, value)| value).collect();
        (label(client), client.samples, values)
    });
    let headline = named(&files.summary.scores);
    let page = RunPage {
        files,
        columns: headline.iter().map(|(name, _)| *name).collect(),
        headline,
        clients: clients.collect(),
        reliability: reliability(&files.predictions)?,
        loss: plot::curves("training loss", &[("training loss", series(&files.rounds, |r| r.train_loss))])?,
        validation: validation(&files.rounds)?,
        left_out: left_out(&files.rounds),
    };
    page.render().map_err(|error| ReportError::Drawing(error.to_string()))
}

fn series(rounds: &[RoundRecord], of: impl Fn(&RoundRecord) -> Option<f64>) -> Vec<(f64, f64)> {
    rounds.iter().filter_map(|record| Some((record.round as f64, of(record)?))).collect()
}

fn validation(rounds: &[RoundRecord]) -> Result<Option<String>, ReportError> {
    let accuracy = series(rounds, |record| record.validation.and_then(|found| found.accuracy));
    if !accuracy.is_empty() {
        return plot::curves("held-out accuracy", &[("held-out accuracy", accuracy)]);
    }
    let rmse = series(rounds, |record| record.validation.and_then(|found| found.rmse));
    plot::curves("held-out RMSE", &[("held-out RMSE", rmse)])
}

fn reliability(predictions: &Predicted) -> Result<Option<String>, ReportError> {
    let Predicted::Classes { classes, probabilities, labels } = predictions else { return Ok(None) };
    let predictions = Predictions::new(probabilities, labels, *classes)
        .map_err(|error| ReportError::Drawing(error.to_string()))?;
    if predictions.is_empty() {
        return Ok(None);
    }
    let bins: Vec<_> = predictions.reliability(Bins::default()).bins().collect();
    plot::reliability(&bins).map(Some)
}

fn label(client: &ClientScores) -> String {
    client.name.as_ref().map_or_else(|| client.id.to_string(), |name| format!("{} ({name})", client.id))
}

fn left_out(rounds: &[RoundRecord]) -> Vec<String> {
    let all = rounds.iter().flat_map(|record| record.left_out.iter().map(move |out| (record.round, out)));
    all.map(|(round, out)| format!("round {round}: client {}: {}", out.client, out.reason)).collect()
}

/// Scores by name, as text.
fn cells(scores: &Scores) -> Vec<(&'static str, String)> {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
    let percent =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{:.2}%", 100.0 * value));
    match *scores {
        Scores::Classification { accuracy, ece, mce, brier, nll, .. } => vec![
            ("accuracy", percent(accuracy)),
            ("ECE", number(ece)),
            ("MCE", number(mce)),
            ("Brier", number(brier)),
            ("NLL", number(nll)),
        ],
        Scores::Regression { rmse, mae, nll, coverage_50, coverage_80, coverage_90, coverage_95 } => vec![
            ("RMSE", number(rmse)),
            ("MAE", number(mae)),
            ("NLL", number(nll)),
            ("in 50% interval", percent(coverage_50)),
            ("in 80%", percent(coverage_80)),
            ("in 90%", percent(coverage_90)),
            ("in 95%", percent(coverage_95)),
        ],
    }
}
