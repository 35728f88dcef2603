//! `fedsi predict`.

pub(super) mod answer;
pub(super) mod assign;
pub(super) mod client;
mod fit;
mod promise;
mod rows;
mod target;

use std::io::{self, Write as _};
use std::path::Path;

use fedsi_data::{InputForm, InputRows, Task, read_inputs};
use fedsi_metrics::fewest_calibration_samples;
use fedsi_run::saved::{AbstentionGoal, SavedRun, Threshold};

use crate::args::{PredictArguments, RowFormat};
use crate::output::{BadInput, print};
use crate::progress::Screen;
use answer::{Found, Questions, warn_of_unknown_strangeness};
use assign::{Wanted, by_column};
use promise::promise;
use rows::Sheet;

/// Models whose thresholds are told one by one.
const MOST_TOLD: usize = 10;

/// What chooses a model where the input does not.
const OPTIONS: &str =
    "give all rows to one client with --client NAME, or fit a new client's model with --fit FILE";

pub(crate) fn predict(arguments: &PredictArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let goal = goal(arguments)?;
    let level = conformal_level(arguments)?;
    let max_strangeness = max_strangeness(arguments.max_strangeness)?;
    let format = format(arguments, json)?;
    target::target(arguments)?;
    let keep = target::keep(arguments)?;
    let run = SavedRun::open(&arguments.run)?;
    let mut calibration = None;
    let wanted = match &arguments.fit {
        Some(data) => {
            let fitted = fit::fit(&run, arguments, data, screen.quiet)?;
            calibration = fitted.calibration;
            Some(Wanted::New(fitted.model))
        }
        None => Wanted::find(&run, arguments.client.as_deref(), arguments.model.as_deref())?,
    };
    if let (Some(Wanted::New(_)), Some(level), None) = (&wanted, level, &calibration) {
        let needed = fewest_calibration_samples(level);
        let words = format!(
            "--conformal {level}: a kept model has no rows that it was not fitted to, and {needed} are needed; \
             calibrate with --fit and the client's labelled rows"
        );
        return Err(BadInput(words).into());
    }
    let inputs = match &wanted {
        Some(wanted) => read(&arguments.input, &wanted.model().input_form(&run))?,
        None => {
            let server = run.server()?;
            read(&arguments.input, &server.input_form(&run))?
        }
    };
    if let (Some(path), Some(Wanted::New(model))) = (&keep, &wanted) {
        model.keep(&run, path)?;
        if !screen.quiet {
            let model = path.display();
            writeln!(
                io::stderr(),
                "kept: {model} (fedsi predict --run {} --model {model} ...)",
                arguments.run.display()
            )?;
        }
    }
    if let Some(chosen) = wanted.as_ref().and_then(Wanted::chosen) {
        chosen.tell(screen.quiet)?;
    }
    let (chosen, groups) = match wanted {
        Some(Wanted::Client(chosen, model)) => {
            let client = Some(chosen.id);
            (Some(chosen), vec![assign::Group { client, model, rows: (0..inputs.count).collect() }])
        }
        Some(new @ Wanted::New(_)) => (None, new.all(inputs.count)),
        None => (None, by_column(&run, &arguments.input, inputs.table.as_ref(), OPTIONS)?),
    };
    let questions = Questions { goal, max_strangeness, level, calibration };
    let (answers, found) = questions.ask(&run, &groups, &inputs)?;
    warn_of_unknown_strangeness(&found, arguments.max_strangeness != DEFAULT_STRANGENESS)?;
    let Some(first) = groups.first() else {
        return Err(BadInput(format!("{}: it has no row", arguments.input.display())).into());
    };
    tell(&run, &found, first.model.task(), arguments.fit.is_some(), screen.quiet)?;
    let sheet = Sheet {
        run: &run,
        client: chosen.as_ref(),
        fit: arguments.fit.as_deref(),
        model: &first.model,
        inputs: &inputs,
        answers: &answers,
        found: &found,
        goal,
    };
    let text = match format {
        RowFormat::Csv => sheet.csv()?,
        RowFormat::Json => sheet.json()?,
    };
    if target::write(arguments, &text)? { Ok(()) } else { print(&text) }
}

/// Above this nothing has to do with the training data: docs/strangeness.md.
const DEFAULT_STRANGENESS: f64 = 6.0;

pub(super) fn max_strangeness(most: f64) -> Result<f64, BadInput> {
    match most.is_finite() {
        true => Ok(most),
        false => Err(BadInput(format!(
            "--max-strangeness {most}: expected a finite number of standard deviations"
        ))),
    }
}

fn conformal_level(arguments: &PredictArguments) -> Result<Option<f64>, BadInput> {
    match arguments.conformal {
        Some(level) if !(0.5..1.0).contains(&level) => Err(BadInput(format!(
            "--conformal {level}: expected a level of 0.5 and more and below 1, such as 0.9"
        ))),
        level => Ok(level),
    }
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

/// The input, with a word about units and cells that look wrong.
fn read(path: &Path, form: &InputForm<'_>) -> anyhow::Result<InputRows> {
    let inputs = read_inputs(path, form)?;
    warn_of_other_units(path, form, &inputs.inputs);
    Ok(inputs)
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

/// Tells thresholds of each model (of many the first), and what sets or intervals promise.
fn tell(run: &SavedRun, found: &[Found], task: Task, is_new: bool, quiet: bool) -> io::Result<()> {
    for group in found.iter().take(MOST_TOLD) {
        if let Some(threshold) = &group.threshold {
            tell_threshold(threshold, group.client, task, quiet)?;
        }
    }
    if quiet {
        return Ok(());
    }
    if found.len() > MOST_TOLD && found.iter().any(|group| group.threshold.is_some()) {
        writeln!(io::stderr(), "and {} more clients; --json has them", found.len() - MOST_TOLD)?;
    }
    for line in promise(run, found, task, is_new).into_iter().flatten() {
        writeln!(io::stderr(), "{line}")?;
    }
    Ok(())
}

/// Tells the threshold, and its coverage and risk on samples it was not found on. That nothing is answered is a warning.
fn tell_threshold(threshold: &Threshold, client: Option<usize>, task: Task, quiet: bool) -> io::Result<()> {
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
    if quiet { Ok(()) } else { writeln!(io::stderr(), "{text}") }
}
