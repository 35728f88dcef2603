//! The page of a run.

use askama::Template;
use fedsi_fl::predict::Predictions;
use fedsi_fl::record::{Figure, RoundRecord};
use fedsi_metrics::Bins;

use crate::{ReportError, RunFiles, plot};

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    files: &'a RunFiles,
    headline: Vec<Figure>,
    clients: Vec<(String, usize, Vec<Figure>)>,
    reliability: Option<String>,
    loss: Option<String>,
    validation: Option<String>,
    left_out: Vec<String>,
}

pub(crate) fn run_page(files: &RunFiles) -> Result<String, ReportError> {
    let clients =
        files.summary.clients.iter().map(|client| (client.label(), client.samples, client.scores.figures()));
    let page = RunPage {
        files,
        headline: files.summary.scores.figures(),
        clients: clients.collect(),
        reliability: reliability(&files.predictions)?,
        loss: plot::curve("training loss", &series(&files.rounds, |r| r.train_loss))?,
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
        return plot::curve("held-out accuracy", &accuracy);
    }
    let rmse = series(rounds, |record| record.validation.and_then(|found| found.rmse));
    plot::curve("held-out RMSE", &rmse)
}

fn reliability(predictions: &Predictions) -> Result<Option<String>, ReportError> {
    let Predictions::Classes { classes, probabilities, labels } = predictions else { return Ok(None) };
    let predictions = fedsi_metrics::Predictions::new(probabilities, labels, *classes)
        .map_err(|error| ReportError::Drawing(error.to_string()))?;
    if predictions.is_empty() {
        return Ok(None);
    }
    let bins: Vec<_> = predictions.reliability(Bins::default()).bins().collect();
    plot::reliability(&bins).map(Some)
}

fn left_out(rounds: &[RoundRecord]) -> Vec<String> {
    let all = rounds.iter().flat_map(|record| record.left_out.iter().map(move |out| (record.round, out)));
    all.map(|(round, out)| format!("round {round}: client {}: {}", out.client, out.reason)).collect()
}
