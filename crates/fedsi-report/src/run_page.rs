//! The page of a run.

use askama::Template;
use fedsi_fl::client::PosteriorKind;
use fedsi_fl::methods::METHODS;
use fedsi_fl::scores::{Figure, Scores};
use fedsi_fl::simulation::RoundRecord;
use fedsi_run::report_data::{MAX_CLIENTS_WITH_SAMPLES, Selection};
use fedsi_run::{ClassScores, ClientScores};

use crate::format::{bytes, counted, grouped};
use crate::headline::Headline;
use crate::output::RenderedPage;
use crate::plots::{RunPlots, UncertaintyPlots};
use crate::sample_gallery::Gallery;
use crate::script_data::ScriptData;
use crate::series::RunSeries;
use crate::{ReportError, RunFiles};

/// Clients a page lists: of more, the worst.
const MAX_LISTED: usize = 1_000;

/// Classes a page lists: of more, the worst.
const MAX_CLASS_ROWS: usize = 50;

/// Updates left out of rounds that are listed one by one.
const MAX_LEFT_OUT: usize = 100;

/// A row of the table of clients.
struct ClientRow {
    id: usize,
    name: String,
    samples: usize,
    figures: Vec<Figure>,
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    files: &'a RunFiles,
    title: String,
    facts: Vec<(&'static str, String)>,
    headline: Headline,
    scores: Vec<Figure>,
    rows: Vec<ClientRow>,
    /// Classes that the page lists.
    class_rows: Vec<&'a ClassScores>,
    /// Clients that the table leaves out.
    unlisted: usize,
    plots: &'a RunPlots,
    uncertainty: Option<&'a UncertaintyPlots>,
    has_unseen: bool,
    gallery: Gallery,
    galleries_of_each: bool,
    classes: &'a [String],
    selection: Option<&'a Selection>,
    left_out: Vec<String>,
    data: String,
}

pub(crate) fn run_page(files: &RunFiles) -> Result<RenderedPage, ReportError> {
    let summary = &files.summary;
    let listed = listed(&summary.clients);
    let mut ids: Vec<usize> = listed.iter().map(|client| client.id).collect();
    ids.sort_unstable();
    let series = RunSeries::of(files, &ids)?;
    let plots = RunPlots::of(files, &listed)?;
    let uncertainty = series.as_ref().map(UncertaintyPlots::of).transpose()?;
    let report_data = files.report_data.as_ref();
    let clients = summary.clients.len();
    let galleries =
        report_data.map(|found| Gallery::by_client(found, clients)).transpose()?.unwrap_or_default();
    let classes = report_data.map_or(&[][..], |found| &found.classes);
    let data = ScriptData::new(classes, &listed, series.as_ref(), galleries).json()?;
    let page = RunPage {
        files,
        title: title(files),
        facts: facts(files),
        headline: Headline::of(files, series.as_ref()),
        scores: summary.scores.figures(),
        class_rows: listed_classes(&summary.classes),
        unlisted: clients - listed.len(),
        rows: listed.into_iter().map(row).collect(),
        plots: &plots,
        uncertainty: uncertainty.as_ref(),
        has_unseen: report_data.is_some_and(|found| !found.foreign.is_empty()),
        gallery: report_data.map(Gallery::pooled).transpose()?.unwrap_or_default(),
        galleries_of_each: clients <= MAX_CLIENTS_WITH_SAMPLES,
        classes,
        selection: report_data.and_then(|found| found.selection.as_ref()),
        left_out: left_out(&files.rounds),
        data,
    };
    let text = page.render().map_err(|error| ReportError::Drawing(error.to_string()))?;
    let own = uncertainty.iter().flat_map(UncertaintyPlots::all).chain(plots.all());
    Ok(RenderedPage { page: text, plots: own.cloned().collect() })
}

fn title(files: &RunFiles) -> String {
    let name = &files.summary.method;
    let title =
        METHODS.iter().find(|method| method.name == name).map_or(name.as_str(), |method| method.title);
    format!("{title} on {}", files.summary.dataset)
}

/// What was run.
fn facts(files: &RunFiles) -> Vec<(&'static str, String)> {
    let summary = &files.summary;
    let method = METHODS.iter().find(|method| method.name == summary.method);
    let samples: usize = summary.clients.iter().map(|client| client.samples).sum();
    let mut facts = vec![("method", summary.method.clone())];
    if let Some(method) = method {
        facts.push(("model evaluated", method.evaluated.to_owned()));
    }
    if let Some(modes) = summary.modes {
        facts.push(("networks averaged", modes.to_string()));
    }
    if let Some(temperature) = summary.calibration.temperature {
        facts.push(("temperature, chosen on data set aside", format!("{temperature:.3}")));
    }
    facts.push(("data", format!("{} ({})", summary.dataset, summary.size)));
    facts.push(("clients", grouped(summary.clients.len() as f64)));
    let coverage = summary.coverage();
    if coverage.scored_clients < coverage.total_clients {
        facts.push(("clients scored", grouped(coverage.scored_clients as f64)));
    }
    if let Some(found) = &files.report_data {
        let count: usize = found.train.iter().flatten().sum();
        let of = found.train.len();
        let note = if of < summary.clients.len() { format!(" (first {of} clients)") } else { String::new() };
        facts.push(("training samples", format!("{}{note}", grouped(count as f64))));
    }
    facts.push(("test samples", grouped(samples as f64)));
    facts.push(("rounds", grouped(summary.rounds as f64)));
    facts.push(("seed", summary.seed.to_string()));
    if let Some(peak) = summary.peak_rss_bytes {
        facts.push(("peak memory", bytes(peak)));
    }
    if let Some(cpu) = &summary.cpu {
        facts.push(("CPU", cpu.clone()));
    }
    facts.push(("fedsi", summary.version.clone()));
    facts
}

/// The clients of the table, the worst first; those without scores at the end.
fn listed(clients: &[ClientScores]) -> Vec<&ClientScores> {
    let loss = |client: &ClientScores| {
        let main = client.scores.figures().first().and_then(|figure| figure.value);
        // A low accuracy is bad, and so is a high error.
        main.map_or(
            f64::NEG_INFINITY,
            |value| if client.scores.accuracy().is_some() { -value } else { value },
        )
    };
    let mut all: Vec<&ClientScores> = clients.iter().collect();
    all.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
    all.truncate(MAX_LISTED);
    all
}

/// All classes in order; of many, those with the lowest recall.
fn listed_classes(classes: &[ClassScores]) -> Vec<&ClassScores> {
    let mut all: Vec<&ClassScores> = classes.iter().collect();
    if all.len() > MAX_CLASS_ROWS {
        let recall = |class: &ClassScores| class.recall.unwrap_or(f64::INFINITY);
        all.sort_by(|a, b| recall(a).total_cmp(&recall(b)));
        all.truncate(MAX_CLASS_ROWS);
    }
    all
}

fn row(client: &ClientScores) -> ClientRow {
    ClientRow {
        id: client.id,
        name: client.label(),
        samples: client.samples,
        figures: client.scores.figures(),
    }
}

/// Participants whose updates were not used.
fn left_out(rounds: &[RoundRecord]) -> Vec<String> {
    let all = rounds.iter().flat_map(|record| record.left_out.iter().map(move |out| (record.round, out)));
    let mut lines: Vec<String> =
        all.map(|(round, out)| format!("round {round}: client {}: {}", out.client, out.reason)).collect();
    let more = lines.len().saturating_sub(MAX_LEFT_OUT);
    lines.truncate(MAX_LEFT_OUT);
    if more > 0 {
        lines.push(format!("and {more} more, in metrics.jsonl"));
    }
    lines
}

impl RunPage<'_> {
    /// A class by its name.
    fn class(&self, number: &usize) -> String {
        self.classes.get(*number).cloned().unwrap_or_else(|| number.to_string())
    }

    /// A client by its number and name.
    fn client(&self, id: &usize) -> String {
        self.files.summary.clients.get(*id).map_or_else(|| id.to_string(), ClientScores::label)
    }

    /// Per mille as a percentage.
    fn percent(share: &u32) -> String {
        format!("{:.1}%", f64::from(*share) / 10.0)
    }

    /// The mean recall over classes, where classes are predicted.
    fn balanced_accuracy(&self) -> Option<String> {
        match self.files.summary.scores {
            Scores::Classification { balanced_accuracy, .. } => {
                balanced_accuracy.map(|share| format!("{:.2}%", 100.0 * share))
            }
            Scores::Regression { .. } => None,
        }
    }

    /// A share as a percentage; a dash where there is none.
    fn share(value: &Option<f64>) -> String {
        value.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", 100.0 * share))
    }

    /// What was run, in a line.
    fn about(&self) -> String {
        let summary = &self.files.summary;
        format!(
            "{}, {}, seed {}, {:.1} s",
            counted(summary.clients.len(), "client"),
            counted(summary.rounds, "round"),
            summary.seed,
            summary.seconds.total
        )
    }

    /// What the posterior is, where there is one.
    fn kind(&self) -> Option<PosteriorKind> {
        self.files.summary.posterior.map(|posterior| posterior.kind)
    }

    /// Whether all candidates have a distribution: then nothing was chosen.
    fn chosen_all(&self) -> bool {
        self.selection.is_some_and(|found| found.tensors.iter().all(|one| one.chosen >= one.of as f64))
    }
}
