//! Samples that a site's own code loaded, as a federation of one client.

use super::form::task_in_words;
use super::message::Refusal;
use crate::federation::{Federation, Samples, Split, Targets, Task};
use crate::scale::Scaling;

/// Training and test samples of one client.
pub(super) struct OwnArrays {
    shape: Vec<usize>,
    task: Task,
    class_names: Option<Vec<String>>,
    train: Samples,
    test: Samples,
    /// Training rows from 0, then test rows.
    rows: [Vec<u32>; 2],
}

impl OwnArrays {
    /// Checks that the samples are of this shape and task. Refuses with what was found and what was expected.
    pub(super) fn new(
        shape: &[usize],
        task: Task,
        class_names: Option<&[String]>,
        train: (Vec<f32>, Targets),
        test: (Vec<f32>, Targets),
    ) -> Result<Self, Refusal> {
        let features: usize = shape.iter().product();
        let (train, test) =
            (checked(features, task, train, "training")?, checked(features, task, test, "test")?);
        if train.count == 0 {
            return Err(("no training rows".to_owned(), "at least one".to_owned()));
        }
        let (Ok(first), Ok(all)) = (u32::try_from(train.count), u32::try_from(train.count + test.count))
        else {
            let found = format!("{} rows", train.count + test.count);
            return Err((found, format!("at most {}", u32::MAX)));
        };
        let rows = [(0..first).collect(), (first..all).collect()];
        let class_names = class_names.map(<[String]>::to_vec);
        Ok(Self { shape: shape.to_vec(), task, class_names, train, test, rows })
    }

    fn of(&self, client: usize, split: Split) -> Option<&Samples> {
        (client == 0).then_some(match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        })
    }
}

/// Samples whose inputs and targets fit each other and the task.
fn checked(
    features: usize,
    task: Task,
    (inputs, targets): (Vec<f32>, Targets),
    split: &str,
) -> Result<Samples, Refusal> {
    let (values, width) = match (&targets, task) {
        (Targets::Classes(classes), Task::Classification { .. }) => (classes.len(), 1),
        (Targets::Values(values), Task::Regression { outputs }) => (values.len(), outputs),
        (Targets::Classes(_), Task::Regression { .. }) => {
            return Err((format!("classes as {split} targets"), task_in_words(task)));
        }
        (Targets::Values(_), Task::Classification { .. }) => {
            return Err((format!("numbers as {split} targets"), task_in_words(task)));
        }
    };
    let count = inputs.len().checked_div(features).unwrap_or(0);
    if inputs.len() != count.saturating_mul(features) || values != count.saturating_mul(width) {
        let found = format!("{} {split} inputs and {values} targets", inputs.len());
        return Err((found, format!("rows of {features} inputs and {width} targets")));
    }
    if let Some(at) = inputs.iter().position(|input| !input.is_finite()) {
        let found = format!("{} in {split} row {}", inputs[at], at / features.max(1));
        return Err((found, "finite inputs".to_owned()));
    }
    match (&targets, task) {
        (Targets::Classes(labels), Task::Classification { classes }) => {
            if let Some(row) = labels.iter().position(|&label| label as usize >= classes) {
                return Err((format!("class {} in {split} row {row}", labels[row]), task_in_words(task)));
            }
        }
        (Targets::Values(values), _) => {
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let found = format!("{} as the target of {split} row {}", values[at], at / width.max(1));
                return Err((found, "finite targets".to_owned()));
            }
        }
        (Targets::Classes(_), Task::Regression { .. }) => {}
    }
    Ok(Samples { count, inputs, targets })
}

impl Federation for OwnArrays {
    fn clients(&self) -> usize {
        1
    }

    fn client_name(&self, _client: usize) -> Option<&str> {
        None
    }

    fn input_shape(&self) -> &[usize] {
        &self.shape
    }

    fn task(&self) -> Task {
        self.task
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn count(&self, client: usize, split: Split) -> usize {
        self.of(client, split).map_or(0, |samples| samples.count)
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        self.of(client, split).cloned().unwrap_or_else(|| self.train.select(&[]))
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        let Task::Classification { classes } = self.task else { return Vec::new() };
        let mut counts = vec![0; classes];
        if let Some(Samples { targets: Targets::Classes(labels), .. }) = self.of(client, split) {
            for &label in labels {
                counts[label as usize] += 1;
            }
        }
        counts
    }

    fn row_numbers(&self, client: usize, split: Split) -> Option<&[u32]> {
        let [train, test] = &self.rows;
        Some(match (client, split) {
            (0, Split::Train) => train,
            (0, Split::Test) => test,
            _ => &[],
        })
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}
