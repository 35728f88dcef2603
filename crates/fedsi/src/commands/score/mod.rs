//! `fedsi score`: rows whose labels came later.

mod columns;
mod drift;
mod figures;
mod file;
mod report;

use std::collections::HashSet;

use fedsi_data::{InputRows, Samples, TargetForm, Targets, read_labelled};
use fedsi_fl::client::Predictions;
use fedsi_run::saved::SavedRun;

use super::predict::answer::{Answer, Prediction, Questions, warn_of_unknown_strangeness};
use super::predict::assign::{Group, Wanted, by_column};
use super::predict::max_strangeness;
use crate::args::ScoreArguments;
use crate::output::{print, print_json};
use crate::progress::Screen;
use drift::DriftTest;
use figures::{Owned, select};
use report::{Report, Rows};

/// What chooses a model where the input does not.
const OPTIONS: &str = "give all rows to one client with --client NAME, or to a model that `fedsi predict --fit --keep` saved \
                       with --model FILE";

pub(crate) fn score(arguments: &ScoreArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let limit = max_strangeness(arguments.max_strangeness)?;
    file::check(arguments)?;
    let run = SavedRun::open(&arguments.run)?;
    let wanted = Wanted::find(&run, arguments.client.as_deref(), arguments.model.as_deref())?;
    let server = run.server()?;
    let (form, targets) = (server.input_form(&run), server.target_form());
    let labelled = read_labelled(&arguments.input, arguments.targets.as_deref(), &form, &targets)?;
    let (samples, table) = (labelled.samples, labelled.table);
    if let Some(chosen) = wanted.as_ref().and_then(Wanted::chosen) {
        chosen.tell(screen.quiet)?;
    }
    let groups = match wanted {
        Some(wanted) => wanted.all(samples.count),
        None => by_column(&run, &arguments.input, table.as_ref(), OPTIONS)?,
    };
    let inputs = InputRows { count: samples.count, inputs: samples.inputs.clone(), names: None, table };
    let questions = Questions { goal: None, max_strangeness: limit, level: None, calibration: None };
    let (answers, found) = questions.ask(&run, &groups, &inputs)?;
    warn_of_unknown_strangeness(&found, false)?;
    let new = NewRows::of(&groups, &answers, &samples, &targets);
    let report = new.report(&run, &groups, &answers, &inputs, &targets)?;
    if let Some(path) = file::write(arguments, &report)? {
        tracing::info!("written: {}", path.display());
    }
    if json {
        return print_json(&report);
    }
    print(&report.text())
}

/// Predictions of new rows, group after group.
struct NewRows {
    predictions: Predictions,
    owners: Vec<Option<usize>>,
    /// The place of each in the input.
    places: Vec<usize>,
    /// Places of rows whose prediction is not finite: they have no figures.
    without: Vec<usize>,
}

impl NewRows {
    /// What answers say of the rows, beside what is true.
    fn of(groups: &[Group], answers: &[Answer], samples: &Samples, form: &TargetForm<'_>) -> Self {
        let mut new = Self {
            predictions: Predictions::none(form.task),
            owners: Vec::new(),
            places: Vec::new(),
            without: Vec::new(),
        };
        for group in groups {
            for &row in &group.rows {
                if new.add(&answers[row].prediction, row, &samples.targets, form) {
                    new.owners.push(group.client);
                    new.places.push(row);
                } else {
                    new.without.push(row);
                }
            }
        }
        new.without.sort_unstable();
        new
    }

    /// Adds a row; whether it has a prediction.
    fn add(&mut self, answer: &Prediction, row: usize, truth: &Targets, form: &TargetForm<'_>) -> bool {
        match (&mut self.predictions, answer, truth) {
            (
                Predictions::Classes { probabilities, labels, .. },
                Prediction::Class { probabilities: own, .. },
                Targets::Classes(truth),
            ) => {
                probabilities.extend(own);
                labels.push(truth[row]);
            }
            (
                Predictions::Values { outputs, mean, variance, targets },
                Prediction::Values { mean: own, variance: spread, .. },
                Targets::Values(truth),
            ) => {
                mean.extend(own);
                variance.extend(spread);
                // In the data's own units, as predictions are.
                let own = truth[row * *outputs..(row + 1) * *outputs].iter().map(|&value| f64::from(value));
                targets.extend(own.enumerate().map(|(output, value)| {
                    form.scaling.map_or(value, |scaling| scaling.restore(output, value))
                }));
            }
            _ => return false,
        }
        true
    }

    fn report(
        &self,
        run: &SavedRun,
        groups: &[Group],
        answers: &[Answer],
        inputs: &InputRows,
        targets: &TargetForm<'_>,
    ) -> anyhow::Result<Report> {
        let seed = run.config().seed;
        let test = TestRows::of(run, groups)?;
        // Rows of a client that the run did not have are one more client's.
        let owners: Vec<usize> = self.owners.iter().map(|owner| owner.unwrap_or(usize::MAX)).collect();
        let lines = figures::lines(
            Owned { predictions: &self.predictions, owners: &owners },
            Owned { predictions: &test.predictions, owners: &test.owners },
            test.is_own,
        );
        let name = |class: usize| match targets.class_names.and_then(|names| names.get(class)) {
            Some(name) => fedsi_data::display_name(name),
            None => class.to_string(),
        };
        let scores: Vec<f64> =
            self.places.iter().map(|&row| answers[row].strangeness.unwrap_or(f64::NAN)).collect();
        // Rows of nobody are permuted together.
        let test_owners: Vec<Option<usize>> =
            test.owners.iter().map(|&owner| test.is_own.then_some(owner)).collect();
        let mut tests: Vec<DriftTest> = Vec::new();
        if let Some(known) = &test.strangeness {
            tests.extend(drift::strangeness((&scores, &self.owners), (known, &test_owners), seed));
        }
        if let (Predictions::Classes { labels, .. }, Predictions::Classes { labels: known, .. }) =
            (&self.predictions, &test.predictions)
        {
            tests.extend(drift::classes((labels, &self.owners), (known, &test_owners), &name, seed));
        }
        let (of_columns, notes) = columns::tests(groups, inputs);
        tests.extend(of_columns);
        let known: HashSet<Option<usize>> = test_owners.iter().copied().collect();
        let rows = Rows {
            abstained: answers.iter().filter(|answer| answer.abstain).count(),
            without_prediction: self.without.iter().map(|row| row + 1).collect(),
            test: test.predictions.len(),
            same_clients: test.is_own,
            compared: self.owners.iter().filter(|owner| test.is_own && known.contains(owner)).count(),
        };
        let drift = drift::corrected(tests);
        Ok(Report::new(run, &self.predictions, targets.class_names, lines, rows, (drift, notes)))
    }
}

/// The run's own test rows of the same clients; of a new client's model those of all clients.
struct TestRows {
    predictions: Predictions,
    owners: Vec<usize>,
    strangeness: Option<Vec<f64>>,
    /// Whether they are of the same clients.
    is_own: bool,
}

impl TestRows {
    fn of(run: &SavedRun, groups: &[Group]) -> anyhow::Result<Self> {
        let (predictions, owners) = run.predictions()?;
        let is_own = groups.iter().all(|group| group.client.is_some());
        let clients: HashSet<usize> = groups.iter().filter_map(|group| group.client).collect();
        let wanted = |&row: &usize| !is_own || clients.contains(&owners[row]);
        let rows: Vec<usize> = (0..owners.len()).filter(wanted).collect();
        let strangeness = run.test_strangeness()?.filter(|all| all.len() == owners.len());
        Ok(Self {
            predictions: select(&predictions, &rows),
            owners: rows.iter().map(|&row| owners[row]).collect(),
            strangeness: strangeness.map(|all| rows.iter().map(|&row| all[row]).collect()),
            is_own,
        })
    }
}
