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
use rows::Sheet;

pub(crate) fn predict(arguments: &PredictArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let goal = goal(arguments)?;
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
    if let Some(chosen) = &chosen {
        chosen.tell(screen.quiet)?;
    }
    let uncertainty = predicted.uncertainty(model.target_scaling());
    let abstain = threshold.map(|threshold| threshold.abstains(&uncertainty));
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
        abstain: abstain.as_deref(),
    };
    let text = match format {
        RowFormat::Csv => sheet.csv()?,
        RowFormat::Json => sheet.json()?,
    };
    if target::write(arguments, &text)? { Ok(()) } else { print(&text) }
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

/// Tells the threshold, and its coverage and risk on the test samples. That nothing is answered is a warning.
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
        (Some(uncertainty), Task::Classification { .. }) => format!(
            "abstaining below a probability of {:.4}, {found}: there it answers {:.1}% with {:.1}% wrong; an estimate, \
             no guarantee",
            1.0 - uncertainty,
            100.0 * threshold.coverage,
            100.0 * threshold.risk.unwrap_or(0.0)
        ),
        (Some(uncertainty), Task::Regression { .. }) => format!(
            "abstaining above a deviation of {uncertainty:.4}, {found}: there it answers {:.1}%; an estimate, no guarantee",
            100.0 * threshold.coverage
        ),
    };
    if quiet { Ok(()) } else { Ok(writeln!(io::stderr(), "{text}")?) }
}
