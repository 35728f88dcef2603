//! `fedsi paper`: the paper's tables and figures.

mod check;

use std::path::{Path, PathBuf};

use fedsi_paper::results::Results;
use fedsi_paper::{
    Experiment, ExperimentSpec, FinishedExperiment, Form, PaperError, Partition, Plan, Selection,
    run_experiment,
};
use serde::Serialize;

use crate::args::{PaperArguments, Settings};
use crate::output::{BadInput, print, print_json};
use crate::progress::{CompareBar, Screen};

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    experiment: &'a str,
    runs: usize,
    missing: usize,
    failures: &'a [String],
    page: &'a Path,
}

pub(crate) fn paper(arguments: &PaperArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    if arguments.rounds == Some(0) {
        return Err(BadInput("--rounds 0: a run needs at least 1 round".to_owned()).into());
    }
    let (experiment, partition) =
        (Experiment::from(arguments.experiment), Partition::from(arguments.partition));
    let form = match (arguments.quick, &arguments.data_dir) {
        (false, _) => Form::Full,
        (true, None) => Form::QuickDigits,
        (true, Some(_)) => Form::QuickMnist,
    };
    let settings = Settings {
        data_dir: arguments.data_dir.clone(),
        device: arguments.device.clone(),
        threads: arguments.threads,
        ..Settings::default()
    };
    let selection = Selection {
        settings: names(arguments.settings.as_deref()),
        entries: names(arguments.methods.as_deref()),
        rounds: arguments.rounds,
        seeds: arguments.seeds,
    };
    let config = |last: &[(&str, toml::Value)]| settings.checked_with(last);
    let plan = Plan::new(experiment, form, partition, &selection, &config).map_err(inner)?;
    let expected = arguments.check.as_deref().map(Results::open).transpose()?;
    let out = arguments.out.clone().unwrap_or_else(|| default_out(experiment, form, partition));
    let command = command(arguments, experiment, partition);
    crate::stop::listen();
    let bar = CompareBar::new(screen);
    let spec = ExperimentSpec {
        plan: &plan,
        runs: &arguments.runs,
        out: &out,
        merge: &arguments.merge,
        make: !arguments.no_runs,
        jobs: arguments.jobs,
        force: arguments.force,
        command: &command,
    };
    let finished = run_experiment(&spec, &bar, &|folder, summary| {
        Ok(fedsi_report::write_run(folder, summary).map(drop)?)
    });
    bar.clear();
    let finished = finished.map_err(inner)?;
    if json {
        print_json(&Printed {
            experiment: experiment.id(),
            runs: finished.results.runs.len(),
            missing: finished.missing,
            failures: &finished.failures,
            page: &finished.page,
        })?;
    } else if !screen.quiet {
        print(&closing(&plan, &finished))?;
    }
    if let Some(expected) = expected {
        check::check(&plan, &finished.results, &expected, screen.quiet || json)?;
    }
    if finished.failures.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "{} of {} runs failed: {}; the others are written down, and the same command makes only those that are missing",
        finished.failures.len(),
        plan.runs.len(),
        finished.failures.join("; ")
    ))
}

/// Names with commas between.
fn names(given: Option<&str>) -> Vec<String> {
    let all = given.into_iter().flat_map(|text| text.split(','));
    all.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The error itself where it is a comparison's, whose remedies are known.
fn inner(error: PaperError) -> anyhow::Error {
    match error {
        PaperError::Compare(error) => error.into(),
        other => other.into(),
    }
}

/// The main table, and where the page is.
fn closing(plan: &Plan, finished: &FinishedExperiment) -> String {
    let cells = fedsi_paper::cells::SettingCells::all(plan, &finished.results);
    let tables = fedsi_paper::page::tables(plan, &cells);
    let mut text = format!("{}\n", plan.experiment.title());
    for named in &tables {
        text.push_str(&format!("\n{}\n\n{}", named.title, named.table.plain()));
    }
    if finished.missing > 0 {
        text.push_str(&format!("\n{} of {} runs are missing.\n", finished.missing, plan.runs.len()));
    }
    text.push_str(&format!("\npage: {}\n", finished.page.display()));
    text
}

/// `runs/paper/NAME`, the quick form and other partitions apart.
fn default_out(experiment: Experiment, form: Form, partition: Partition) -> PathBuf {
    let mut name = experiment.id().to_owned();
    if partition != Partition::Labels {
        name.push_str(&format!("-{}", partition.id()));
    }
    if form != Form::Full {
        name.push_str("-quick");
    }
    Path::new("runs").join("paper").join(name)
}

/// The command that makes everything again, from any machine.
fn command(arguments: &PaperArguments, experiment: Experiment, partition: Partition) -> String {
    let mut words = vec![format!("fedsi paper {}", experiment.id())];
    if arguments.quick {
        words.push("--quick".to_owned());
    }
    if partition != Partition::Labels {
        words.push(format!("--partition {}", partition.id()));
    }
    if !arguments.quick || arguments.data_dir.is_some() {
        words.push("--data-dir DATA".to_owned());
    }
    words.join(" ")
}
