//! `fedsi compare`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use fedsi_compare::{CompareSpec, Comparison, FinishedComparison, Format};
use fedsi_metrics::MIN_PAIRS;

use crate::args::{CompareArguments, TableFormat};
use crate::output::{BadInput, print, print_json};
use crate::progress::{CompareBar, Screen};

pub(crate) fn compare(arguments: &CompareArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let settings = &arguments.settings;
    if settings.names_a_method()? {
        let words =
            "fedsi compare runs several methods: name them with --methods, as in --methods fedsi,fedavg";
        return Err(BadInput(words.to_owned()).into());
    }
    if arguments.tune_rounds.is_some() && !arguments.tune {
        return Err(BadInput("--tune-rounds is for trials: give --tune too".to_owned()).into());
    }
    if arguments.tune_rounds == Some(0) {
        return Err(BadInput("--tune-rounds 0: a trial needs at least 1 round".to_owned()).into());
    }
    let spec = CompareSpec {
        methods: fedsi_compare::methods(&arguments.methods)?,
        seeds: arguments.seeds,
        reference: arguments.reference.as_deref(),
        tune: arguments.tune,
        tune_rounds: arguments.tune_rounds,
        jobs: arguments.jobs,
        out: arguments.out.clone(),
        force: arguments.force,
        settings: &|last| settings.checked_with(last),
    };
    crate::stop::listen();
    let bar = CompareBar::new(screen);
    let finished = fedsi_compare::compare(&spec, &bar, &|folder, summary| {
        Ok(fedsi_report::write_run(folder, summary).map(drop)?)
    });
    bar.clear();
    let FinishedComparison { folder, comparison } = finished?;
    let path = folder.path();
    let report = fedsi_report::write_comparison(path, &comparison);
    comparison.write(path)?;
    let report = report.context("the comparison is complete and saved, but its report failed")?;
    let has_table = !json && (arguments.format.is_some() || !screen.quiet);
    // The table says it.
    if !has_table {
        comparison.unranked().iter().for_each(|why| tracing::warn!("not ranked: {why}"));
    }
    if json {
        print_json(&comparison)?;
    } else if has_table {
        print(&closing(arguments.format, &comparison, path, &report)?)?;
    }
    let failures = comparison.failures();
    if failures.is_empty() {
        return Ok(());
    }
    let runs = comparison.seeds.len() * comparison.methods.len();
    Err(anyhow::anyhow!(
        "{} of {runs} runs failed: {}; the others are in {}, and the same command makes only those that are missing",
        failures.len(),
        failures.join("; "),
        path.display()
    ))
}

/// The table: on its own where a program or a paper reads it, with a heading and the files' paths in a terminal.
fn closing(
    format: Option<TableFormat>,
    comparison: &Comparison,
    path: &Path,
    report: &Path,
) -> anyhow::Result<String> {
    let format = match format {
        None => {
            let mut text = String::new();
            writeln!(
                text,
                "{} on {} ({}): {}, {}\n",
                count(comparison.methods.len(), "method"),
                comparison.dataset,
                comparison.size,
                count(comparison.rounds, "round"),
                count(comparison.seeds.len(), "seed")
            )?;
            text.push_str(&comparison.render(Format::Plain));
            text.push_str(&tuned(comparison));
            text.push_str(&hint(comparison));
            writeln!(text, "\nfiles:  {}", path.display())?;
            writeln!(text, "report: {}", report.display())?;
            return Ok(text);
        }
        Some(TableFormat::Plain) => Format::Plain,
        Some(TableFormat::Markdown) => Format::Markdown,
        Some(TableFormat::Latex) => Format::Latex,
        Some(TableFormat::Csv) => Format::Csv,
    };
    Ok(comparison.render(format))
}

/// `1 seed`, `3 seeds`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// What to do where there are too few seeds for a test.
fn hint(comparison: &Comparison) -> String {
    let seeds = comparison.seeds.len();
    if seeds >= MIN_PAIRS || comparison.methods.len() < 2 {
        return String::new();
    }
    format!(
        "\nhint: {} cannot be tested. The same command with --seeds {MIN_PAIRS} or more gives intervals and p-values, and reuses \
         the runs that are there.\n",
        count(seeds, "seed")
    )
}

/// What tuning chose, a line a method.
fn tuned(comparison: &Comparison) -> String {
    let mut text = String::new();
    for method in comparison.methods.iter().filter(|method| !method.tuned.is_empty()) {
        let values: Vec<String> =
            method.tuned.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        text.push_str(&format!(
            "tuned: {}: {} ({} trials)\n",
            method.title,
            values.join(", "),
            method.trials.len()
        ));
    }
    text
}
