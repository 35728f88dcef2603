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
use fedsi_run::{Completed, RunError, RunFolder, Summary, own_data_title, run};

use crate::args::RunArguments;
use crate::output::{Stopped, print, print_json};
use crate::progress::{RunBar, Screen};
use crate::table::{Table, bytes, line_width, wrapped};

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
    anyhow::Error::new(error).context(Stopped(path.to_owned()))
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
    let (mut text, width) = (String::new(), line_width());
    writeln!(
        text,
        "{} on {}, seed {}: {}, {}\n",
        config.method().title,
        data_title(config, summary),
        summary.seed,
        counted(summary.rounds, "round"),
        counted(summary.clients.len(), "client")
    )?;
    if config.partition.pooled_client {
        let told = "pooled data: the client pooled trained alone, on the training rows of all others, which begin with what it learned; it is not tested";
        text.push_str(&wrapped(told, width, 0));
        text.push('\n');
    } else if let Some(novel) = summary.novel_sentence() {
        text.push_str(&wrapped(&novel, width, 0));
        text.push('\n');
    }
    let unscored = summary.unscored_lines();
    if !unscored.is_empty() {
        writeln!(text, "{}\n", unscored.join("\n"))?;
    }
    writeln!(text, "{}", clients_table(summary).fitted(width, "summary.json has them"))?;
    writeln!(text, "{}", figures_table(summary).fitted(width, "summary.json has them"))?;
    for sentence in fedsi_report::run_verdict(summary) {
        text.push_str(&wrapped(&sentence, width, 0));
    }
    if let Some(words) = fedsi_report::interval_note(summary) {
        text.push_str(&wrapped(&format!("({words})"), width, 0));
    }
    text.push('\n');
    text.push_str(&wrapped(&format!("model evaluated: {}", config.method().evaluated), width, 0));
    if let Some(modes) = summary.modes {
        writeln!(text, "mixture: {modes} networks, trained in turn, whose predictions are averaged")?;
    }
    if config.calibration.own_classes {
        writeln!(text, "classes predicted: those that each client has training samples of")?;
    }
    if let Some(temperature) = summary.calibration.temperature {
        writeln!(text, "temperature: {temperature:.3}, chosen by the federation on data set aside")?;
    }
    if let Some(posterior) = &summary.posterior {
        text.push_str(&wrapped(&posterior_line(posterior), width, 0));
    }
    let seconds = summary.seconds;
    writeln!(
        text,
        "time: {:.1} s{} (training {:.1}, {}evaluation {:.1})\ntraffic: {} up, {} down{}",
        seconds.total,
        device_words(summary),
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

/// ` on x86-64 AVX2+FMA with NVIDIA H200`, where it was not the CPU alone.
fn device_words(summary: &Summary) -> String {
    match &summary.cpu {
        Some(kind) if kind.contains(" with ") => format!(" on {kind}"),
        _ => String::new(),
    }
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

/// `1 round`, `2 rounds`.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// What the data is called; a size only where it has one.
fn data_title(config: &Checked, summary: &Summary) -> String {
    match config.dataset().own_files(&config.data) {
        Some(files) => fedsi_data::display_name(&own_data_title(&files.name, &files.train)),
        None => format!("{} ({})", summary.dataset, summary.size),
    }
}

/// The figures of a client. The largest gap of a bin is not among them: of a client's rows a bin of 1% is one row, or none.
fn client_columns(scores: &Scores) -> Vec<usize> {
    let keys = scores.keys().iter().enumerate();
    keys.filter(|(_, key)| **key != "mce_1pct").map(|(at, _)| at).collect()
}

/// Each client's scores; of many, the lowest, median and highest alone.
fn clients_table(summary: &Summary) -> Table {
    let columns = client_columns(&summary.scores);
    let figures = |scores: &Scores| -> Vec<Figure> {
        scores
            .figures()
            .into_iter()
            .enumerate()
            .filter(|(at, _)| columns.contains(at))
            .map(|(_, one)| one)
            .collect()
    };
    let overall = figures(&summary.scores);
    let clients = &summary.clients;
    let has_floor = overall.iter().any(|figure| figure.floor.is_some());
    let mut heading = vec!["client", "rows"];
    for figure in &overall {
        heading.push(figure.name);
        if figure.floor.is_some() {
            heading.push("floor");
        }
    }
    let mut table = Table::new(1, heading);
    let mut line = |name: &str, samples: String, figures: &[Figure]| {
        let mut cells = vec![name.to_owned(), samples];
        for (figure, overall) in figures.iter().zip(&overall) {
            cells.push(figure.to_string());
            if overall.floor.is_some() {
                cells.push(Figure { value: figure.floor, ..*figure }.to_string());
            }
        }
        table.row(cells);
    };
    if clients.len() <= MAX_LINES {
        for client in clients {
            line(&client.label(), client.samples.to_string(), &figures(&client.scores));
        }
    }
    let scores: Vec<Vec<Figure>> = clients.iter().map(|client| figures(&client.scores)).collect();
    let over_clients: Vec<[Option<Spread>; 2]> = (0..overall.len())
        .map(|column| {
            let floors = scores.iter().filter_map(|figures| figures[column].floor);
            [
                Spread::of(scores.iter().filter_map(|figures| figures[column].value)),
                Spread::of(floors.filter(|_| has_floor)),
            ]
        })
        .collect();
    let mut order = |name: &str, of: fn(&Spread) -> Option<f64>| {
        let figures = overall.iter().zip(&over_clients).map(|(figure, [value, floor])| Figure {
            value: value.as_ref().and_then(of),
            floor: floor.as_ref().and_then(of),
            ..*figure
        });
        line(name, String::new(), &figures.collect::<Vec<_>>());
    };
    if clients.len() > 1 {
        order("lowest", |found| Some(found.min));
        order("median", |found| Some(found.median));
        order("highest", |found| Some(found.max));
        order("std over clients", |found| found.std_dev);
    }
    table
}

/// The scores of all clients together, each with its interval and what it is of.
fn figures_table(summary: &Summary) -> Table {
    let details = &summary.details;
    let mut table = Table::new(1, ["all clients", "value", "95% interval", "of"]).words_last();
    let scored = summary.coverage().scored_clients;
    let over_clients = format!("mean over {}", counted(scored, "client"));
    let all_rows = "all test rows".to_owned();
    let mut line = |figure: &Figure, key: &str, of: &str| {
        let end = |value: f64| Figure { value: Some(value), ..*figure }.to_string();
        let interval = details.interval(key);
        let interval = interval.map_or_else(String::new, |[low, high]| {
            format!("{} to {}", end(low).trim_end_matches('%'), end(high))
        });
        table.row([figure.name.to_owned(), figure.to_string(), interval, of.to_owned()]);
    };
    for (figure, &key) in summary.scores.figures().iter().zip(summary.scores.keys()) {
        if key == "accuracy" {
            line(figure, key, &over_clients);
            let share = |name, value| Figure { name, value, ..*figure };
            if details.majority_accuracy.is_some() {
                line(&share("most frequent class", details.majority_accuracy), "", &over_clients);
            }
            if scored > 1 {
                let of = format!("lowest tenth of {}", counted(scored, "client"));
                line(&share("worst clients", details.worst_tenth_accuracy), "", &of);
            }
            if let Scores::Classification { balanced_accuracy, .. } = summary.scores {
                line(&share("balanced accuracy", balanced_accuracy), "balanced_accuracy", &all_rows);
            }
            continue;
        }
        match figure.floor {
            Some(floor) => line(figure, key, &format!("all rows; {floor:.4} by chance")),
            None => line(figure, key, &all_rows),
        }
    }
    table
}
