//! `fedsi run`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fedsi_fl::Checked;
use fedsi_fl::client::{PosteriorKind, PosteriorSummary};
use fedsi_fl::config::COVERED_FILES;
use fedsi_fl::scores::{Figure, Scores};
use fedsi_metrics::Summary as Spread;
use fedsi_report::ReportError;
use fedsi_run::{Completed, RunError, RunFolder, Summary, run};

use crate::args::RunArguments;
use crate::output::{print, print_json};
use crate::progress::{RunBar, Screen};
use crate::table::{Table, bytes};

/// Clients shown one by one; more are summed up.
const MAX_LINES: usize = 20;

pub(crate) fn run(arguments: &RunArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let config = arguments.settings.checked()?;
    let folder = match &arguments.out {
        Some(path) => RunFolder::claim(path, arguments.force, &config)?,
        None => RunFolder::claim_default(Path::new(""), &config)?,
    };
    let path = folder.path().to_owned();
    crate::stop::listen();
    match run::run(&config, folder, &mut RunBar::new(screen), fedsi_report::write_run) {
        Ok(completed) => finish(&config, &path, completed, screen, json),
        Err(error) => Err(stopped(error, &path)),
    }
}

/// A run that ended early: what was saved, and how to resume it.
pub(super) fn stopped(error: RunError, path: &Path) -> anyhow::Error {
    if error.is_bad_input() || !path.join("config.toml").exists() {
        return error.into();
    }
    let saved = format!(
        "the run stopped, and what was saved is in {0}; resume with: fedsi resume {0}",
        path.display()
    );
    anyhow::Error::new(error).context(saved)
}

/// What a complete run prints.
pub(super) fn finish(
    config: &Checked,
    path: &Path,
    completed: Completed<Result<PathBuf, ReportError>>,
    screen: &Screen,
    json: bool,
) -> anyhow::Result<()> {
    let Completed { summary, report } = completed;
    let report = report.context("the run is complete and saved, but its report failed")?;
    // The closing text says it too.
    if json || screen.quiet {
        let warnings = summary.unscored_sentence().into_iter().chain(skipped_line(&summary));
        warnings.for_each(|warning| tracing::warn!("{warning}"));
    }
    if json {
        return print_json(&summary);
    }
    if screen.quiet {
        return Ok(());
    }
    print(&closing(config, &summary, path, &report)?)
}

/// The text printed at the end of a run.
fn closing(config: &Checked, summary: &Summary, path: &Path, report: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "{} on {} ({}), seed {}: {} rounds, {} clients\n",
        config.method().title,
        summary.dataset,
        summary.size,
        summary.seed,
        summary.rounds,
        summary.clients.len()
    )?;
    let unscored = summary.unscored_lines();
    if !unscored.is_empty() {
        writeln!(text, "{}\n", unscored.join("\n"))?;
    }
    write!(text, "{}", scores_table(summary))?;
    writeln!(text, "\n{}", pooling(summary))?;
    writeln!(text, "model evaluated: {}", config.method().evaluated)?;
    if let Some(modes) = summary.modes {
        writeln!(text, "mixture: {modes} networks, trained in turn, whose predictions are averaged")?;
    }
    if let Some(temperature) = summary.calibration.temperature {
        writeln!(text, "temperature: {temperature:.3}, chosen by the federation on data set aside")?;
    }
    if let Some(posterior) = &summary.posterior {
        writeln!(text, "{}", posterior_line(posterior))?;
    }
    let seconds = summary.seconds;
    writeln!(
        text,
        "time: {:.1} s (training {:.1}, {}evaluation {:.1}); traffic: {} up, {} down{}",
        seconds.total,
        seconds.train,
        if summary.posterior.is_some_and(|posterior| posterior.laplace.is_some()) {
            format!("posteriors {:.1}, ", seconds.posterior)
        } else {
            String::new()
        },
        seconds.evaluate,
        bytes(summary.bytes.up),
        bytes(summary.bytes.down),
        summary.peak_rss_bytes.map(|peak| format!("; memory: {}", bytes(peak))).unwrap_or_default()
    )?;
    text.push_str(&exclusion_lines(summary));
    writeln!(text, "\nfiles:  {}", path.display())?;
    writeln!(text, "report: {}", report.display())?;
    Ok(text)
}

/// Excluded updates, skipped rounds and the privacy guarantee: a line each, where there is any.
fn exclusion_lines(summary: &Summary) -> String {
    let (mut text, trouble) = (String::new(), &summary.trouble);
    if trouble.total() > 0 {
        let kinds: Vec<String> =
            trouble.left_out.iter().map(|(kind, count)| format!("{count} {}", kind.as_str())).collect();
        text.push_str(&format!("left out: {} updates ({})\n", trouble.total(), kinds.join(", ")));
    }
    if let Some(line) = skipped_line(summary) {
        text.push_str(&format!("{line}\n"));
    }
    if let (Some(epsilon), Some(delta)) = (summary.epsilon, summary.delta) {
        text.push_str(&format!(
            "privacy: epsilon {epsilon:.2} at delta {delta:e}, for each client; it covers {} and nothing else in the \
             folder (docs/privacy.md)\n",
            COVERED_FILES.join(" and ")
        ));
    }
    text
}

/// How many rounds changed nothing, where there are any.
fn skipped_line(summary: &Summary) -> Option<String> {
    let (skipped, rounds) = (summary.trouble.skipped_rounds, summary.rounds);
    (skipped > 0)
        .then(|| format!("skipped: {skipped} of {rounds} rounds, with fewer updates than the quorum"))
}

/// The posterior of the personal models.
fn posterior_line(posterior: &PosteriorSummary) -> String {
    let (parameters, deviation) = (posterior.parameters, posterior.variance.sqrt());
    match (posterior.kind, posterior.laplace) {
        (_, Some(laplace)) => format!(
            "posterior: {parameters:.0} parameters a client ({:.1}% without curvature), prior variance {:.3}, rank \
             {:.0}, variances at most {:.1}% too large",
            100.0 * laplace.zero_curvature,
            laplace.prior_variance,
            laplace.rank,
            100.0 * laplace.certificate
        ),
        (PosteriorKind::Samples, None) => {
            let mixing = posterior.chain.map_or_else(String::new, |chain| {
                format!(", R-hat {:.2}, correlation of neighbours {:.2}", chain.r_hat, chain.correlation)
            });
            format!(
                "posterior: samples of the head, {parameters:.0} parameters a client, of standard deviation \
                 {deviation:.3}{mixing}"
            )
        }
        (PosteriorKind::MeanField | PosteriorKind::Laplace, None) => format!(
            "posterior: {parameters:.0} independent parameters a client, of standard deviation {deviation:.3}"
        ),
    }
}

/// Each client's scores (or, of many, only their spread), then all of them together.
fn scores_table(summary: &Summary) -> Table {
    let overall = summary.scores.figures();
    let clients = &summary.clients;
    let names = overall.iter().map(|figure| figure.name);
    let mut table = Table::new(1, ["client", "samples"].into_iter().chain(names));
    let mut line = |name: &str, samples: String, figures: &[Figure]| {
        table.row([name.to_owned(), samples].into_iter().chain(figures.iter().map(Figure::beside_floor)));
    };
    if clients.len() <= MAX_LINES {
        for client in clients {
            line(&client.label(), client.samples.to_string(), &client.scores.figures());
        }
    }
    let scores: Vec<Vec<Figure>> = clients.iter().map(|client| client.scores.figures()).collect();
    let spreads: Vec<Option<Spread>> = (0..overall.len())
        .map(|column| Spread::of(scores.iter().filter_map(|figures| figures[column].value)))
        .collect();
    let mut spread = |name: &str, of: fn(&Spread) -> Option<f64>| {
        let figures = overall.iter().zip(&spreads);
        let figures = figures.map(|(figure, spread)| Figure {
            value: spread.as_ref().and_then(of),
            floor: None,
            ..*figure
        });
        line(name, String::new(), &figures.collect::<Vec<_>>());
    };
    spread("lowest", |spread| Some(spread.min));
    spread("median", |spread| Some(spread.median));
    spread("highest", |spread| Some(spread.max));
    spread("std over clients", |spread| spread.std_dev);
    let scored = clients.iter().filter(|client| client.scores.is_scored());
    let samples: usize = scored.map(|client| client.samples).sum();
    line("all", samples.to_string(), &overall);
    table
}

/// How the last line of the table comes about.
fn pooling(summary: &Summary) -> String {
    let coverage = summary.coverage();
    let scored = if coverage.scored_clients < coverage.tested_clients {
        "; of the clients that were scored"
    } else {
        ""
    };
    let text = match summary.scores {
        Scores::Classification { .. } => {
            "all: accuracy is the mean over clients, the rest is pooled over all test samples; floor: the ECE that perfect \
             calibration would have by chance"
        }
        Scores::Regression { .. } => "all: pooled over all test samples, in the units of the data",
    };
    format!("{text}{scored}")
}
