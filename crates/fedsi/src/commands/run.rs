//! `fedsi run`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use fedsi_fl::record::{ClientScores, Scores, Summary};
use fedsi_fl::{Checked, RunFolder, run};
use fedsi_metrics::Summary as Spread;

use crate::args::RunArguments;
use crate::output::{print, print_json};
use crate::progress::{RunBar, Screen};
use crate::table::{Table, bytes, percent, score};

/// Clients shown one by one; more are summed up.
const MOST_LINES: usize = 20;

pub(crate) fn run(arguments: &RunArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let config = arguments.settings.checked()?;
    let default = || RunFolder::default_path(Path::new(""), &config);
    let folder = RunFolder::claim(&arguments.out.clone().unwrap_or_else(default), arguments.force)?;
    let path = folder.path().to_owned();
    let summary = run::run(&config, folder, &mut RunBar::new(screen))?;
    let report =
        fedsi_report::write_run(&path).context("the run is complete and saved, but its report failed")?;
    if json {
        return print_json(&summary);
    }
    if screen.quiet {
        return Ok(());
    }
    print(&closing(&config, &summary, &path, &report)?)
}

/// What a person wants to know at the end.
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
    write!(text, "{}", scores_table(summary))?;
    writeln!(text, "\nmodel evaluated: {}", config.method().evaluated)?;
    let seconds = summary.seconds;
    writeln!(
        text,
        "time: {:.1} s (training {:.1}, evaluation {:.1}); traffic: {} up, {} down{}",
        seconds.total,
        seconds.train,
        seconds.evaluate,
        bytes(summary.bytes.up),
        bytes(summary.bytes.down),
        summary.peak_rss_bytes.map(|peak| format!("; memory: {}", bytes(peak))).unwrap_or_default()
    )?;
    writeln!(text, "\nfiles:  {}", path.display())?;
    writeln!(text, "report: {}", report.display())?;
    Ok(text)
}

/// Each client's scores (or, of many, only their spread), then all of them together.
fn scores_table(summary: &Summary) -> Table {
    let (heading, cells): (&[&str], fn(&Scores) -> Vec<Option<f64>>) = match summary.scores {
        Scores::Classification { .. } => (&["accuracy", "ECE", "MCE", "Brier", "NLL"], classification),
        Scores::Regression { .. } => (&["RMSE", "MAE", "NLL", "in 50%", "in 90%", "in 95%"], regression),
    };
    let shown = |scores: &[Option<f64>]| -> Vec<String> {
        let of = |(column, value): (usize, &Option<f64>)| match heading[column] {
            "accuracy" | "in 50%" | "in 90%" | "in 95%" => percent(*value),
            _ => score(*value),
        };
        scores.iter().enumerate().map(of).collect()
    };
    let mut table = Table::new(1, ["client", "samples"].into_iter().chain(heading.iter().copied()));
    let clients = &summary.clients;
    if clients.len() <= MOST_LINES {
        for client in clients {
            table.row(
                [label(client), client.samples.to_string()].into_iter().chain(shown(&cells(&client.scores))),
            );
        }
    }
    let columns: Vec<Option<Spread>> = (0..heading.len())
        .map(|column| Spread::of(clients.iter().filter_map(|client| cells(&client.scores)[column])))
        .collect();
    let spread: [(&str, fn(&Spread) -> Option<f64>); 4] = [
        ("lowest", |spread| Some(spread.min)),
        ("median", |spread| Some(spread.median)),
        ("highest", |spread| Some(spread.max)),
        ("std over clients", |spread| spread.std_dev),
    ];
    for (name, of) in spread {
        let values: Vec<Option<f64>> = columns.iter().map(|column| column.as_ref().and_then(of)).collect();
        table.row([name.to_owned(), String::new()].into_iter().chain(shown(&values)));
    }
    let samples: usize = clients.iter().map(|client| client.samples).sum();
    table.row(["all".to_owned(), samples.to_string()].into_iter().chain(shown(&cells(&summary.scores))));
    table
}

fn label(client: &ClientScores) -> String {
    client.name.as_ref().map_or_else(|| client.id.to_string(), |name| format!("{} {name}", client.id))
}

fn classification(scores: &Scores) -> Vec<Option<f64>> {
    match *scores {
        Scores::Classification { accuracy, ece, mce, brier, nll, .. } => vec![accuracy, ece, mce, brier, nll],
        Scores::Regression { .. } => vec![None; 5],
    }
}

fn regression(scores: &Scores) -> Vec<Option<f64>> {
    match *scores {
        Scores::Regression { rmse, mae, nll, coverage_50, coverage_90, coverage_95, .. } => {
            vec![rmse, mae, nll, coverage_50, coverage_90, coverage_95]
        }
        Scores::Classification { .. } => vec![None; 6],
    }
}
