//! `fedsi ood`: what the models of a finished run make of inputs that are not like those they were trained on.

mod file;
mod inputs;
mod measure;

use fedsi_data::{Federation, Task};
use fedsi_run::saved::{SavedError, SavedRun};
use fedsi_run::{OpenData, Origin, RunError};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::{OodArguments, Settings};
use crate::output::{BadInput, print, print_json};
use crate::progress::Screen;
use crate::table::Table;
use inputs::{InputSet, OtherDataset, Shown};
use measure::{Answers, Measured, measure};

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
    let data = open_data(&run, arguments)?;
    let federation = data.federation.as_ref();
    let Task::Classification { classes } = federation.task() else {
        let words = "it predicts values, which are neither right nor wrong; `fedsi predict` gives the strangeness of every row";
        return Err(BadInput(format!("{}: {words}", arguments.run.display())).into());
    };
    let others = inputs::other_datasets(&run, arguments, federation)?;
    let report = Report {
        format: file::FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        method: run.config().method.clone(),
        dataset: fedsi_run::dataset_name(run.config()),
        seed: run.config().seed,
        clients: 0,
        samples_a_client: arguments.samples,
        sets: Vec::new(),
    };
    let asked = ask_all(&run, federation, &others, arguments.samples)?;
    let report = Report { clients: asked.len(), sets: measure(&asked, classes)?, ..report };
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

/// The data that the run was made from: where it is now, and unchanged.
fn open_data(run: &SavedRun, arguments: &OodArguments) -> anyhow::Result<OpenData> {
    let settings = Settings {
        config: Some(run.path().join("config.toml")),
        saved: true,
        data_dir: arguments.data_dir.clone(),
        ..Settings::default()
    };
    let data = OpenData::open(&settings.checked()?)?;
    // Runs of 0.1 did not say what their data was.
    if let Some(origin) = Origin::read(run.path()).map_err(RunError::from)?
        && let Some(change) = origin.data.change(&data.digest)
    {
        return Err(RunError::DataChanged { path: run.path().to_owned(), change }.into());
    }
    Ok(data)
}

/// The answers of every client that has a model and test samples, in the order of their ids.
fn ask_all(
    run: &SavedRun,
    federation: &dyn Federation,
    others: &[OtherDataset],
    samples: usize,
) -> anyhow::Result<Vec<Vec<(InputSet, Answers)>>> {
    let ids: Vec<usize> = run.clients().iter().map(|client| client.id).collect();
    let ask = |&id: &usize| -> Result<Option<Vec<(InputSet, Answers)>>, SavedError> {
        let model = match run.client(id) {
            // What the run says of it already: it is left out here as it is there.
            Err(SavedError::NoPosterior { .. }) => return Ok(None),
            model => model?,
        };
        let shown = inputs::shown(federation, id, others, samples, run.config().seed);
        if shown.is_empty() {
            return Ok(None);
        }
        let answer = |Shown { set, inputs, labels }: Shown| Ok((set, Answers::of(&model, &inputs, labels)?));
        match shown.into_iter().map(answer).collect() {
            Err(SavedError::NotFinite { .. }) => Ok(None),
            answers => answers.map(Some),
        }
    };
    let found: Vec<Option<_>> = ids.par_iter().map(ask).collect::<Result<_, _>>()?;
    let asked: Vec<_> = found.into_iter().flatten().collect();
    match (ids.len() - asked.len(), asked.is_empty()) {
        (_, true) => {
            let words = "no client has a usable model and test samples to show it";
            Err(BadInput(format!("{}: {words}", run.path().display())).into())
        }
        (0, _) => Ok(asked),
        (left_out, _) => {
            tracing::warn!("{left_out} clients without a usable model or test samples are left out");
            Ok(asked)
        }
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
