//! What models say of rows: predictions, how strange the rows are, and whether to abstain and why.

use fedsi_data::table::outside;
use fedsi_data::{InputRows, InputTable, Scaling, TableEncoding, display_name};
use fedsi_fl::client::Predictions;
use fedsi_metrics::{HALF_WIDTH_95, conformal_set};
use fedsi_run::saved::{
    AbstentionGoal, ConformalCalibration, Predicted, SavedError, SavedRun, Threshold, most_probable,
};
use fedsi_run::six_digits;

use super::assign::Group;
use crate::output::BadInput;

/// What is said of one row.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The client whose model it is, where that is one of the run's.
    pub(crate) client: Option<usize>,
    pub(crate) prediction: Prediction,
    /// None where the model does not know.
    pub(crate) strangeness: Option<f64>,
    pub(crate) abstain: bool,
    /// Why to abstain, and what else is unusual; empty where nothing is.
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) enum Prediction {
    Class {
        probabilities: Vec<f32>,
        /// How far the network's outputs vary under the posterior.
        variance: f64,
        /// Classes that hold the true one at the wanted level.
        set: Option<Vec<usize>>,
    },
    Values {
        mean: Vec<f64>,
        variance: Vec<f64>,
        low: Vec<f64>,
        high: Vec<f64>,
    },
    /// It is not finite.
    Nothing,
}

/// What is asked besides predictions.
pub(crate) struct Questions {
    pub(crate) goal: Option<AbstentionGoal>,
    pub(crate) max_strangeness: f64,
    pub(crate) level: Option<f64>,
    /// In the place of the run's test predictions: a calibration on a new client's own rows.
    pub(crate) calibration: Option<ConformalCalibration>,
}

/// What was found for a group besides its answers.
pub(crate) struct Found {
    pub(crate) client: Option<usize>,
    pub(crate) rows: usize,
    pub(crate) threshold: Option<Threshold>,
    pub(crate) calibration: Option<ConformalCalibration>,
    pub(crate) knows_strangeness: bool,
}

impl Questions {
    /// Answers for every row, in the input's order. The test predictions of the run are read once, where they are needed.
    pub(crate) fn ask(
        &self,
        run: &SavedRun,
        groups: &[Group],
        inputs: &InputRows,
    ) -> anyhow::Result<(Vec<Answer>, Vec<Found>)> {
        let wants_tests = self.goal.is_some() || (self.level.is_some() && self.calibration.is_none());
        let tests = if wants_tests { Some(run.predictions()?) } else { None };
        // Before the work: a goal that cannot be had is an error.
        let mut found = Vec::with_capacity(groups.len());
        for Group { client, model, rows } in groups {
            let tests = tests.as_ref().map(|(predictions, owners)| (predictions, owners.as_slice()));
            found.push(Found {
                client: *client,
                rows: rows.len(),
                threshold: match (self.goal, tests) {
                    (Some(goal), Some(tests)) => {
                        Some(threshold(run, tests, *client, goal, model.target_scaling())?)
                    }
                    _ => None,
                },
                calibration: self.calibrate(run, tests, *client)?,
                knows_strangeness: true,
            });
        }
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(inputs.count, || None);
        let mut failed = None;
        for (group, found) in groups.iter().zip(&mut found) {
            let (own, error) = self.answer(group, found, inputs)?;
            failed = failed.or(error);
            for (&row, answer) in group.rows.iter().zip(own) {
                answers[row] = Some(answer);
            }
        }
        let answers: Vec<Answer> = answers.into_iter().flatten().collect();
        let has_one = |answer: &Answer| !matches!(answer.prediction, Prediction::Nothing);
        match failed {
            Some(error) if !answers.iter().any(has_one) => Err(error.into()),
            _ => Ok((answers, found)),
        }
    }

    fn calibrate(
        &self,
        run: &SavedRun,
        tests: Option<(&Predictions, &[usize])>,
        client: Option<usize>,
    ) -> anyhow::Result<Option<ConformalCalibration>> {
        match (&self.calibration, self.level, tests) {
            (Some(own), ..) => Ok(Some(own.clone())),
            (None, Some(level), Some(tests)) => {
                Ok(Some(ConformalCalibration::among(run, tests, client, level)?))
            }
            _ => Ok(None),
        }
    }

    /// Answers for a group, and the error of rows so far off that their prediction is not finite: those abstain.
    fn answer(
        &self,
        group: &Group,
        found: &mut Found,
        inputs: &InputRows,
    ) -> Result<(Vec<Answer>, Option<SavedError>), SavedError> {
        let error = match self.answer_rows(group, &group.rows, found, inputs) {
            Err(error @ SavedError::NotFinite { .. }) => error,
            answers => return Ok((answers?, None)),
        };
        let mut answers = Vec::with_capacity(group.rows.len());
        for row in &group.rows {
            match self.answer_rows(group, &[*row], found, inputs) {
                Err(SavedError::NotFinite { .. }) => answers.push(not_finite(group, *row, inputs)),
                answer => answers.extend(answer?),
            }
        }
        Ok((answers, Some(error)))
    }

    fn answer_rows(
        &self,
        group: &Group,
        rows: &[usize],
        found: &mut Found,
        inputs: &InputRows,
    ) -> Result<Vec<Answer>, SavedError> {
        let Group { client, model, .. } = group;
        let width = inputs.inputs.len().checked_div(inputs.count).unwrap_or(0);
        let own: Vec<f32> =
            rows.iter().flat_map(|&row| &inputs.inputs[row * width..(row + 1) * width]).copied().collect();
        let predicted = model.predict(&own)?;
        let strangeness = model.strangeness(&own)?;
        found.knows_strangeness = strangeness.is_some();
        let uncertainty = predicted.uncertainty(model.target_scaling());
        let answers = rows.iter().enumerate().map(|(at, &row)| {
            let score = strangeness.as_ref().map(|all| all[at]);
            let mut reasons = Reasons::of_values(group, row, inputs);
            if let Some(score) = score.filter(|&score| score > self.max_strangeness) {
                // Beyond a thousand decimals say nothing.
                let shown = if score < 1e3 { format!("{score:.1}") } else { format!("{score:.1e}") };
                let text = format!("strangeness {shown}: above {}", six_digits(self.max_strangeness));
                reasons.add(text, true);
            }
            if let Some(threshold) = &found.threshold
                && threshold.abstains(&uncertainty[at..=at])[0]
            {
                reasons.add(uncertain(&predicted, at, uncertainty[at], threshold), true);
            }
            Answer {
                client: *client,
                prediction: prediction(&predicted, at, found.calibration.as_ref()),
                strangeness: score,
                abstain: reasons.abstain,
                reason: reasons.texts.join("; "),
            }
        });
        Ok(answers.collect())
    }
}

/// The threshold of a client; of one without test rows that of all clients.
fn threshold(
    run: &SavedRun,
    tests: (&Predictions, &[usize]),
    client: Option<usize>,
    goal: AbstentionGoal,
    scaling: Option<&Scaling>,
) -> Result<Threshold, SavedError> {
    match Threshold::among(run, tests, client, goal, scaling) {
        Err(SavedError::NoThreshold { client: Some(client) }) => {
            tracing::warn!("client {client} has no test rows: its threshold is that of all clients");
            Threshold::among(run, tests, None, goal, scaling)
        }
        found => found,
    }
}

/// What is said of a row whose prediction is not finite.
fn not_finite(group: &Group, row: usize, inputs: &InputRows) -> Answer {
    let mut reasons = Reasons::of_values(group, row, inputs);
    reasons.add("no prediction: it is not finite".to_owned(), true);
    Answer {
        client: group.client,
        prediction: Prediction::Nothing,
        strangeness: None,
        abstain: true,
        reason: reasons.texts.join("; "),
    }
}

/// The cells of a row that are inputs, in the encoding's order.
pub(crate) fn used_cells(table: &InputTable, row: usize) -> &[String] {
    table.used.get(row).map_or(&[], Vec::as_slice)
}

/// What is unusual about a row, what makes it abstain first.
#[derive(Default)]
struct Reasons {
    abstain: bool,
    texts: Vec<String>,
    /// How many of them make it abstain.
    grave: usize,
}

impl Reasons {
    /// What is unusual about a row's values, where the model knows what its client has seen.
    fn of_values(group: &Group, row: usize, inputs: &InputRows) -> Self {
        let mut reasons = Self::default();
        let model = &group.model;
        if let (Some(encoding), Some(ranges), Some(table)) =
            (model.encoding(), model.ranges(), inputs.table.as_ref())
        {
            let cells = used_cells(table, row);
            for value in outside(encoding, ranges, cells) {
                reasons.add(value.text, value.far);
            }
            reasons.add_missing(encoding, cells);
        }
        reasons
    }

    /// What is missing: a row of which more than half is missing abstains, whatever stands in for it.
    fn add_missing(&mut self, encoding: &TableEncoding, cells: &[String]) {
        let pairs = encoding.columns.iter().zip(cells);
        let missing: Vec<_> =
            pairs.filter(|(column, cell)| column.is_missing(cell)).map(|(column, _)| column).collect();
        if 2 * missing.len() > encoding.columns.len() {
            let text = format!("{} of {} values are missing", missing.len(), encoding.columns.len());
            self.add(text, true);
            return;
        }
        for column in missing.into_iter().filter(|column| !column.missing) {
            self.add(format!("{}: missing, as in no training row", display_name(&column.name)), false);
        }
    }

    fn add(&mut self, text: String, is_grave: bool) {
        if is_grave {
            self.abstain = true;
            self.texts.insert(self.grave, text);
            self.grave += 1;
        } else {
            self.texts.push(text);
        }
    }
}

fn uncertain(predicted: &Predicted, at: usize, uncertainty: f64, threshold: &Threshold) -> String {
    match (predicted, threshold.uncertainty) {
        (_, None) => "no threshold keeps this risk".to_owned(),
        (Predicted::Classes { classes, probabilities, .. }, Some(most)) => {
            let (_, probability) = most_probable(&probabilities[at * classes..(at + 1) * classes]);
            format!("uncertain: probability {probability:.3}, below {:.3}", 1.0 - most)
        }
        (Predicted::Values { .. }, Some(most)) => {
            format!("uncertain: deviation {}, above {}", six_digits(uncertainty), six_digits(most))
        }
    }
}

fn prediction(predicted: &Predicted, at: usize, calibration: Option<&ConformalCalibration>) -> Prediction {
    match predicted {
        Predicted::Classes { classes, probabilities, variance } => {
            let probabilities = probabilities[at * classes..(at + 1) * classes].to_vec();
            let threshold = calibration.and_then(|found| found.thresholds.first());
            let set = threshold.map(|&threshold| conformal_set(&probabilities, threshold));
            Prediction::Class { probabilities, variance: variance[at], set }
        }
        Predicted::Values { outputs, mean, variance } => {
            let range = at * outputs..(at + 1) * outputs;
            let (mean, variance) = (mean[range.clone()].to_vec(), variance[range].to_vec());
            let half = |output: usize| {
                let own = calibration.and_then(|found| found.thresholds.get(output)).copied();
                own.unwrap_or(HALF_WIDTH_95) * variance[output].sqrt()
            };
            let low = (0..*outputs).map(|output| mean[output] - half(output)).collect();
            let high = (0..*outputs).map(|output| mean[output] + half(output)).collect();
            Prediction::Values { mean, variance, low, high }
        }
    }
}

/// Says of groups without strangeness why they have none; a wish for it is then an error.
pub(crate) fn warn_of_unknown_strangeness(found: &[Found], asked: bool) -> Result<(), BadInput> {
    const WHY: &str = "the model does not know what inputs are usual; it was saved by version 0.1, or has fewer than 10 \
                       training samples";
    if found.iter().all(|group| group.knows_strangeness) {
        return Ok(());
    }
    if asked {
        return Err(BadInput(format!("--max-strangeness: {WHY}")));
    }
    tracing::warn!("`strangeness` is empty: {WHY}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_row_abstain_comes_first() {
        let mut reasons = Reasons::default();
        for (text, is_grave) in [("near", false), ("far", true), ("odd", false), ("strange", true)] {
            reasons.add(text.to_owned(), is_grave);
        }
        assert_eq!((reasons.abstain, reasons.texts.join("; ").as_str()), (true, "far; strange; near; odd"));
        assert!(!Reasons::default().abstain);
    }
}
