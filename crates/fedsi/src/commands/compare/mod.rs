//! `fedsi compare`.

mod section;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use fedsi_compare::{
    Columns, CompareError, CompareSpec, Comparison, ExternalMethod, FinishedComparison, Format,
};
use fedsi_metrics::MIN_PAIRS;

use crate::args::{CompareArguments, TableFormat};
use crate::output::{BadInput, print, print_json};
use crate::progress::{CompareBar, Screen};

/// Letters of a line in a terminal.
const WIDTH: usize = 80;

pub(crate) fn compare(arguments: &CompareArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let (settings, section) = section::read(&arguments.settings)?;
    if settings.names_a_method()? {
        let words =
            "fedsi compare runs several methods: name them with --methods, as in --methods fedsi,fedavg";
        return Err(BadInput(words.to_owned()).into());
    }
    let wanted = section.overridden_by(arguments)?;
    let spec = CompareSpec {
        methods: fedsi_compare::methods(&wanted.methods)?,
        with: wanted.with.iter().map(|text| ExternalMethod::parse(text)).collect::<Result<_, _>>()?,
        columns: wanted.columns,
        seeds: wanted.seeds,
        reference: wanted.reference.as_deref(),
        tune: wanted.tune,
        jobs: arguments.jobs,
        out: arguments.out.clone(),
        force: arguments.force,
        settings: &|last| settings.checked_with(last),
        given: settings.given()?,
    };
    crate::stop::listen();
    let bar = CompareBar::new(screen);
    let finished = fedsi_compare::compare(&spec, &bar, &|folder, summary| {
        Ok(fedsi_report::write_run(folder, summary).map(drop)?)
    });
    bar.clear();
    let FinishedComparison { folder, comparison } = finished.map_err(stopped)?;
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
        let has_curves = settings.checked()?.validation.fraction > 0.0;
        print(&closing(arguments.format, &comparison, path, &report, has_curves)?)?;
    }
    let failures = comparison.failures();
    if failures.is_empty() {
        return Ok(());
    }
    let runs = comparison.seeds.len() * spec.methods.len();
    Err(anyhow::anyhow!(
        "{} of {runs} runs failed: {}; the others are in {}, and the same command makes only those that are missing",
        failures.len(),
        failures.join("; "),
        path.display()
    ))
}

/// A comparison that was stopped: the runs that are finished have a page, which says what is missing.
fn stopped(error: CompareError) -> anyhow::Error {
    let CompareError::Interrupted { path } = &error else { return error.into() };
    match fedsi_report::remake(path) {
        Ok(page) => {
            let words = format!("the finished runs are summed up in {}", page.display());
            anyhow::Error::new(error).context(words)
        }
        // Where no run is finished there is nothing to show.
        Err(_) => error.into(),
    }
}

/// The table: on its own where a program or a paper reads it, with a heading and the files' paths in a terminal.
fn closing(
    format: Option<TableFormat>,
    comparison: &Comparison,
    path: &Path,
    report: &Path,
    has_curves: bool,
) -> anyhow::Result<String> {
    let format = match format {
        None => {
            let mut text = String::new();
            writeln!(
                text,
                "{} on {}{}: {}, {}\n",
                count(comparison.methods.len(), "method"),
                comparison.dataset,
                // How much data there is of one's own is as it is.
                if comparison.is_own_data() { String::new() } else { format!(" ({})", comparison.size) },
                count(comparison.rounds, "round"),
                count(comparison.seeds.len(), "seed")
            )?;
            text.push_str(&comparison.render(Format::Plain));
            text.push_str(&tuned(comparison));
            text.push_str(&hint(comparison, has_curves));
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

/// How to see what is not shown, and what to do where there are too few seeds for a test.
fn hint(comparison: &Comparison, has_curves: bool) -> String {
    let mut text = String::new();
    let left_out = comparison.table(Columns::Fit(WIDTH)).left_out;
    if !left_out.is_empty() {
        text.push_str(&format!("\nmore columns: --columns {}\n", left_out.join(",")));
    }
    if !has_curves {
        text.push_str("curves on held-out data: --set validation.fraction=0.2 (in a new folder)\n");
    }
    let seeds = comparison.seeds.len();
    if seeds < MIN_PAIRS && comparison.methods.len() > 1 {
        text.push_str(&format!(
            "\nhint: {} cannot be tested. The same command with --seeds {MIN_PAIRS} or more\ngives intervals and \
             p-values, and reuses the runs that are there.\n",
            count(seeds, "seed")
        ));
    }
    text
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
