//! The page of a run.

use askama::Template;
use fedsi_fl::client::PosteriorKind;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::methods::METHODS;
use fedsi_fl::scores::{Figure, Scores};
use fedsi_run::report_data::{MAX_CLIENTS_WITH_SAMPLES, Selection};
use fedsi_run::{ClassScores, ClientScores};

use crate::client_verdict::ClientFindings;
use crate::config_facts::ConfigFacts;
use crate::conformal_section::ConformalSection;
use crate::confusion_table::ConfusionTable;
use crate::format::{bytes, counted, grouped};
use crate::headline::Headline;
use crate::output::RenderedPage;
use crate::plots::{RunPlots, UncertaintyPlots};
use crate::sample_gallery::Gallery;
use crate::script_data::ScriptData;
use crate::series::RunSeries;
use crate::words::percent_range;
use crate::{ReportError, RunFiles};

/// Clients a page lists: of more, the worst.
const MAX_LISTED: usize = 1_000;

/// Classes a page lists: of more, the worst.
const MAX_CLASS_ROWS: usize = 50;

/// Letters of a class's name that fit beside a bar on a narrow card.
const SHORT_NAME: usize = 6;

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
    settings: ConfigFacts,
    headline: Headline,
    scores: Vec<Figure>,
    rows: Vec<ClientRow>,
    /// Classes that the page lists.
    class_rows: Vec<&'a ClassScores>,
    confusion: ConfusionTable,
    conformal: Option<ConformalSection>,
    /// Clients that the table leaves out.
    unlisted: usize,
    plots: &'a RunPlots,
    uncertainty: Option<&'a UncertaintyPlots>,
    has_unseen: bool,
    gallery: Gallery,
    galleries_of_each: bool,
    classes: &'a [String],
    /// Whether cards are wide: they show the cells of a table, or long names.
    wide_cards: bool,
    /// Columns of the table that samples are rows of.
    columns: &'a [String],
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
    let mut findings = ClientFindings::of(files, &ids);
    let settings = ConfigFacts::of(&files.config);
    let plots = RunPlots::of(files, &listed)?;
    let uncertainty = series.as_ref().map(UncertaintyPlots::of).transpose()?;
    let report_data = files.report_data.as_ref();
    let clients = summary.clients.len();
    let galleries =
        report_data.map(|found| Gallery::by_client(found, clients)).transpose()?.unwrap_or_default();
    let classes = report_data.map_or(&[][..], |found| &found.classes);
    let columns = report_data.map_or(&[][..], |found| &found.columns);
    let data = ScriptData::new((classes, columns), &listed, series.as_ref(), galleries, &findings.verdicts)
        .json()?;
    let page = RunPage {
        files,
        title: title(files, &settings),
        facts: facts(files, &settings),
        headline: Headline::of(files, series.as_ref(), &mut findings),
        settings,
        scores: client_figures(&summary.scores),
        class_rows: listed_classes(&summary.classes),
        confusion: ConfusionTable::of(summary),
        conformal: ConformalSection::of(files),
        unlisted: clients - listed.len(),
        rows: listed.into_iter().map(row).collect(),
        plots: &plots,
        uncertainty: uncertainty.as_ref(),
        has_unseen: report_data.is_some_and(|found| !found.foreign.is_empty()),
        gallery: report_data.map(Gallery::pooled).transpose()?.unwrap_or_default(),
        galleries_of_each: clients <= MAX_CLIENTS_WITH_SAMPLES,
        classes,
        wide_cards: !columns.is_empty() || classes.iter().any(|name| name.chars().count() > SHORT_NAME),
        columns,
        selection: report_data.and_then(|found| found.selection.as_ref()),
        left_out: left_out(&files.rounds),
        data,
    };
    let text = page.render().map_err(|error| ReportError::Drawing(error.to_string()))?;
    let own = uncertainty.iter().flat_map(UncertaintyPlots::all).chain(plots.all());
    let shows_rows = report_data.is_some_and(|found| !found.columns.is_empty());
    let readers = if shows_rows { fedsi_run::Readers::Owner } else { fedsi_run::Readers::Umask };
    Ok(RenderedPage { page: text, readers, plots: own.cloned().collect() })
}

fn title(files: &RunFiles, settings: &ConfigFacts) -> String {
    let name = &files.summary.method;
    let title =
        METHODS.iter().find(|method| method.name == name).map_or(name.as_str(), |method| method.title);
    format!("{title} on {}", settings.own_title().unwrap_or_else(|| files.summary.dataset.clone()))
}

/// What was run.
fn facts(files: &RunFiles, settings: &ConfigFacts) -> Vec<(&'static str, String)> {
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
    if settings.has_pooled_client {
        let told = "of all clients, at the client pooled, which trained alone; the others, shown as novel, begin with what it learned";
        facts.push(("training data", told.to_owned()));
    }
    if settings.is_over_own_classes {
        facts.push(("classes predicted", "those each client has training samples of".to_owned()));
    }
    facts.push((
        "data",
        match settings.own_title() {
            Some(title) => title,
            None => format!("{} ({})", summary.dataset, summary.size),
        },
    ));
    if let (Some(rule), Some(_)) = (&settings.rule, files.summary.posterior.and_then(|found| found.laplace)) {
        facts.push(("selection rule", rule.clone()));
    }
    facts.push(("clients", grouped(summary.clients.len() as f64)));
    let coverage = summary.coverage();
    if coverage.scored_clients < coverage.total_clients {
        facts.push(("clients scored", grouped(coverage.scored_clients as f64)));
    }
    if let Some(found) = &files.report_data {
        let count: usize = found.train.iter().flatten().sum();
        let of = found.train.len();
        let note = if of < summary.clients.len() { format!(" (first {of} clients)") } else { String::new() };
        facts.push(("training rows", format!("{}{note}", grouped(count as f64))));
    }
    facts.push(("test rows", grouped(samples as f64)));
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

/// The columns of the table of clients. The largest gap of a bin is not among them: of a client's rows a bin of 1% is one
/// row, or none.
fn client_figures(scores: &Scores) -> Vec<Figure> {
    scores
        .figures()
        .into_iter()
        .zip(scores.keys())
        .filter(|(_, key)| **key != "mce_1pct")
        .map(|(one, _)| one)
        .collect()
}

fn row(client: &ClientScores) -> ClientRow {
    ClientRow {
        id: client.id,
        name: client.label(),
        samples: client.samples,
        figures: client_figures(&client.scores),
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

    /// The mean recall over classes, where classes are predicted, with its interval.
    fn balanced_accuracy(&self) -> Option<String> {
        let Scores::Classification { balanced_accuracy: Some(share), .. } = self.files.summary.scores else {
            return None;
        };
        let interval = self.files.summary.details.interval("balanced_accuracy");
        let interval =
            interval.map_or_else(String::new, |ends| format!(" (95% interval {})", percent_range(ends)));
        Some(format!("{:.1}%{interval}", 100.0 * share))
    }

    /// A share of samples, a class's among all.
    fn class_share(&self, samples: &usize) -> String {
        let all: usize = self.files.summary.classes.iter().map(|class| class.samples).sum();
        format!("{:.1}%", 100.0 * *samples as f64 / all.max(1) as f64)
    }

    /// A share as a percentage; a dash where there is none.
    fn share(value: &Option<f64>) -> String {
        Self::share_within(value, &None)
    }

    /// A share with its interval; a dash where there is none.
    fn share_within(value: &Option<f64>, interval: &Option<[f64; 2]>) -> String {
        let Some(share) = value else { return "-".to_owned() };
        let interval = interval.map_or_else(String::new, |ends| format!(" ({})", percent_range(ends)));
        format!("{:.1}%{interval}", 100.0 * share)
    }

    /// An area under a curve; a dash where there is none.
    fn area(value: &Option<f64>) -> String {
        value.map_or_else(|| "-".to_owned(), |area| format!("{area:.3}"))
    }

    /// The cells of a card's sample, each under its column's name.
    fn cells<'b>(&'b self, cells: &'b [String]) -> impl Iterator<Item = (&'b String, &'b String)> {
        self.columns.iter().zip(cells)
    }

    /// A figure, a share with one digit: the page has no room for more than rows can tell.
    fn figure(figure: &Figure) -> String {
        match figure.value {
            Some(value) if figure.is_share => format!("{:.1}%", 100.0 * value),
            _ => figure.to_string(),
        }
    }

    /// Whether samples are pictures.
    fn has_images(&self) -> bool {
        self.files.report_data.as_ref().is_some_and(|found| found.image.is_some())
    }

    /// Test rows of the clients that were scored.
    fn scored_rows(&self) -> usize {
        crate::run_verdict::scored_rows(&self.files.summary)
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
