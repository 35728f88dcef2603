//! `fedsi ood`: what the models of a finished run make of inputs that are not like those they were trained on.

mod file;

use fedsi_run::ood::{Measured, OodError, OodSettings, OtherDatasets, measure_ood, open_run_data};
use fedsi_run::saved::SavedRun;
use serde::Serialize;

use crate::args::OodArguments;
use crate::output::{BadInput, print, print_json};
use crate::progress::Screen;
use crate::table::Table;

/// Everything that is reported.
#[derive(Debug, Serialize)]
struct Report {
    format: &'static str,
    version: &'static str,
    method: String,
    dataset: String,
    seed: u64,
    /// Clients whose models were asked.
    clients: usize,
    /// Most samples of each set that a client's model was shown.
    samples_a_client: usize,
    /// The clients' own test samples first.
    sets: Vec<Measured>,
}

pub(crate) fn ood(arguments: &OodArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    if arguments.samples == 0 {
        return Err(BadInput("--samples 0: expected at least 1".to_owned()).into());
    }
    let run = SavedRun::open(&arguments.run)?;
    file::check(arguments)?;
    let data = open_run_data(&run, arguments.data_dir.as_deref())?;
    let found = measure_ood(&run, data.federation.as_ref(), &settings(arguments)).map_err(in_flags)?;
    if found.left_out > 0 {
        tracing::warn!("{} clients without a usable model or test samples are left out", found.left_out);
    }
    let report = Report {
        format: file::FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        method: run.config().method.clone(),
        dataset: fedsi_run::dataset_name(run.config()),
        seed: run.config().seed,
        clients: found.clients,
        samples_a_client: arguments.samples,
        sets: found.sets,
    };
    if report.sets.iter().all(|set| set.strangeness.is_none()) {
        tracing::warn!(
            "no model knows what inputs are usual (saved by version 0.1, or fewer than 10 training samples): \
             strangeness is left out"
        );
    }
    let path = file::write(arguments, &report)?;
    if json {
        return print_json(&report);
    }
    if screen.quiet {
        return Ok(());
    }
    print(&format!("{}\n{CAPTION}\n\nfile: {}\n", table(&report), path.display()))
}

/// Everything that can be shown, of all datasets that are there where none was asked for.
fn settings(arguments: &OodArguments) -> OodSettings {
    let datasets = match arguments.against.as_slice() {
        [] => OtherDatasets::Available,
        names => OtherDatasets::Named(names.to_vec()),
    };
    OodSettings {
        datasets,
        data_dir: arguments.data_dir.clone(),
        samples: arguments.samples,
        corrupted: true,
    }
}

/// An error in the words of the command line; what is underneath, where something is: it decides the exit status.
fn in_flags(error: OodError) -> anyhow::Error {
    match error {
        OodError::UnknownDataset(error) => BadInput(format!("--against: {error}")).into(),
        OodError::OtherDataset { name, reason } => BadInput(format!("--against {name}: {reason}")).into(),
        OodError::PredictsValues { .. } => {
            BadInput(format!("{error}; `fedsi predict` gives the strangeness of every row")).into()
        }
        OodError::Data(error) => error.into(),
        OodError::Saved(error) => error.into(),
        OodError::Metrics(error) => error.into(),
        other => BadInput(other.to_string()).into(),
    }
}

const CAPTION: &str = "strangeness: standard deviations above what the client's training inputs have; AUROC: how well strangeness, \
                       or entropy, tells\nthese inputs from the client's own test samples (1 is perfect, 0.5 is chance), mean over clients";

fn table(report: &Report) -> Table {
    let heading = [
        "inputs",
        "samples",
        "accuracy",
        "NLL",
        "ECE",
        "entropy",
        "strangeness",
        "AUROC strangeness",
        "AUROC entropy",
    ];
    let mut table = Table::new(1, heading);
    let number =
        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for set in &report.sets {
        table.row([
            set.inputs.to_string(),
            set.samples.to_string(),
            set.accuracy.map_or("-".to_owned(), |share| format!("{:.2}%", 100.0 * share)),
            number(set.nll, 4),
            number(set.ece, 4),
            format!("{:.3}", set.entropy),
            number(set.strangeness, 2),
            number(set.auroc_strangeness, 3),
            number(set.auroc_entropy, 3),
        ]);
    }
    table
}
