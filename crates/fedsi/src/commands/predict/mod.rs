//! `fedsi predict`.

mod client;
mod rows;
mod target;

use std::io::{self, Write as _};
use std::path::Path;

use fedsi_data::{InputForm, Task, read_inputs, read_labelled};
use fedsi_run::saved::{AbstentionGoal, SavedModel, SavedRun, Threshold};

use crate::args::{PredictArguments, RowFormat};
use crate::output::{BadInput, print};
use crate::progress::Screen;
use client::ChosenClient;
use rows::{Reasons, Sheet};

pub(crate) fn predict(arguments: &PredictArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let goal = goal(arguments)?;
    let most = most_strangeness(arguments)?;
    let format = format(arguments, json)?;
    target::target(arguments)?;
    let run = SavedRun::open(&arguments.run)?;
    let chosen = arguments.client.as_deref().map(|wanted| ChosenClient::find(&run, wanted)).transpose()?;
    let client = chosen.as_ref().map(|chosen| chosen.id);
    let model = match (client, &arguments.fit) {
        (Some(client), _) => run.client(client)?,
        (None, Some(data)) => fit(&run, data, arguments)?,
        (None, None) => return Err(BadInput("give --client ID or --fit FILE".to_owned()).into()),
    };
    let form = model.input_form(&run);
    let inputs = read_inputs(&arguments.input, &form)?;
    warn_of_other_units(&arguments.input, &form, &inputs.inputs);
    // Before the work: a goal that cannot be had is an error.
    let found = |goal| Threshold::find(&run, client, goal, model.target_scaling());
    let threshold = goal.map(found).transpose()?;
    let predicted = model.predict(&inputs.inputs)?;
    let strangeness = model.strangeness(&inputs.inputs)?;
    if strangeness.is_none() {
        if most.is_some() {
            return Err(BadInput(format!("--max-strangeness: {UNKNOWN_STRANGENESS}")).into());
        }
        tracing::warn!("`strangeness` is empty: {UNKNOWN_STRANGENESS}");
    }
    if let Some(chosen) = &chosen {
        chosen.tell(screen.quiet)?;
    }
    let uncertainty = predicted.uncertainty(model.target_scaling());
    let uncertain = threshold.map(|threshold| threshold.abstains(&uncertainty));
    let abstain = reasons(uncertain.as_deref(), most, strangeness.as_deref());
    if let Some(threshold) = &threshold {
        tell_threshold(threshold, client, model.task(), screen.quiet)?;
    }
    let sheet = Sheet {
        run: &run,
        client: chosen.as_ref(),
        fit: arguments.fit.as_deref(),
        model: &model,
        names: inputs.names.as_deref(),
        predicted: &predicted,
        goal: goal.zip(threshold),
        strangeness: strangeness.as_deref(),
        abstain: abstain.as_deref(),
    };
    let text = match format {
        RowFormat::Csv => sheet.csv()?,
        RowFormat::Json => sheet.json()?,
    };
    if target::write(arguments, &text)? { Ok(()) } else { print(&text) }
}

/// Why a model cannot say how strange an input is.
const UNKNOWN_STRANGENESS: &str = "the model does not know what inputs are usual; it was saved by version 0.1, or \
                                   has fewer than 10 training samples";

/// Why to abstain on each row; none where nobody asked.
fn reasons(
    uncertain: Option<&[bool]>,
    most: Option<f64>,
    strangeness: Option<&[f64]>,
) -> Option<Vec<Reasons>> {
    let strange =
        most.zip(strangeness).map(|(most, all)| all.iter().map(|&score| score > most).collect::<Vec<_>>());
    let count = uncertain.map(<[bool]>::len).or_else(|| strange.as_ref().map(Vec::len))?;
    let at = |row: usize| Reasons {
        uncertain: uncertain.is_some_and(|all| all[row]),
        strange: strange.as_ref().is_some_and(|all| all[row]),
    };
    Some((0..count).map(at).collect())
}

fn most_strangeness(arguments: &PredictArguments) -> Result<Option<f64>, BadInput> {
    match arguments.max_strangeness {
        Some(most) if !most.is_finite() => Err(BadInput(format!(
            "--max-strangeness {most}: expected a finite number of standard deviations"
        ))),
        most => Ok(most),
    }
}

/// A model for a client that the run did not have.
fn fit(run: &SavedRun, data: &Path, arguments: &PredictArguments) -> anyhow::Result<SavedModel> {
    let server = run.server()?;
    let (inputs, targets) = (server.input_form(run), server.target_form());
    let samples = read_labelled(data, arguments.fit_targets.as_deref(), &inputs, &targets)?;
    Ok(server.join(run, samples)?)
}

fn goal(arguments: &PredictArguments) -> Result<Option<AbstentionGoal>, BadInput> {
    match (arguments.coverage, arguments.risk) {
        (Some(share), _) if share > 0.0 && share <= 1.0 => Ok(Some(AbstentionGoal::Coverage(share))),
        (Some(share), _) => {
            Err(BadInput(format!("--coverage {share}: expected a share above 0 and at most 1")))
        }
        (None, Some(share)) if (0.0..=1.0).contains(&share) => Ok(Some(AbstentionGoal::Risk(share))),
        (None, Some(share)) => Err(BadInput(format!("--risk {share}: expected a share from 0 to 1"))),
        (None, None) => Ok(None),
    }
}

fn format(arguments: &PredictArguments, json: bool) -> Result<RowFormat, BadInput> {
    if json && arguments.format == Some(RowFormat::Csv) {
        return Err(BadInput("--json and --format csv: choose one of them".to_owned()));
    }
    let ending = arguments.out.as_ref().and_then(|path| path.extension());
    let by_ending = if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        RowFormat::Json
    } else {
        RowFormat::Csv
    };
    Ok(arguments.format.unwrap_or(if json { RowFormat::Json } else { by_ending }))
}

/// Images given as floats from 0 to 1 are numbers all the same, and nonsense to a network that takes -1 to 1.
fn warn_of_other_units(path: &Path, form: &InputForm<'_>, inputs: &[f32]) {
    let array = path.extension().is_some_and(|ending| ending == "npy" || ending == "safetensors");
    if form.pixels && array && inputs.iter().all(|&value| value >= 0.0) {
        tracing::warn!("no input is below 0: images given as floats are scaled to [-1, 1], not [0, 1]");
    }
}

/// What thresholds found on half of the test samples did on the other half.
fn judged(threshold: &Threshold, has_risk: bool) -> String {
    let Some(judged) = threshold.judged else { return "too few to judge it by".to_owned() };
    let wrong = judged.risk().filter(|_| has_risk);
    let wrong = wrong.map_or_else(String::new, |risk| format!(" with {:.1}% wrong", 100.0 * risk));
    format!(
        "found on half of them, it answers {:.1}% of the other half{wrong}; an estimate, no guarantee",
        100.0 * judged.coverage()
    )
}

/// Tells the threshold, and its coverage and risk on samples it was not found on. That nothing is answered is a warning.
fn tell_threshold(
    threshold: &Threshold,
    client: Option<usize>,
    task: Task,
    quiet: bool,
) -> anyhow::Result<()> {
    let whose = client.map_or("all clients".to_owned(), |client| format!("client {client}"));
    let found = format!("found on {} test samples of {whose}", threshold.samples);
    let text = match (threshold.uncertainty, task) {
        (None, _) => {
            tracing::warn!("every row abstains: no threshold keeps this risk ({found})");
            return Ok(());
        }
        (Some(uncertainty), Task::Classification { .. }) => {
            let judged = judged(threshold, true);
            format!("abstaining below a probability of {:.4}, {found}: {judged}", 1.0 - uncertainty)
        }
        (Some(uncertainty), Task::Regression { .. }) => {
            let judged = judged(threshold, false);
            format!("abstaining above a deviation of {uncertainty:.4}, {found}: {judged}")
        }
    };
    if quiet { Ok(()) } else { Ok(writeln!(io::stderr(), "{text}")?) }
}
