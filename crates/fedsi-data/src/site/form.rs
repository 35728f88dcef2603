//! The shape of inputs and the task, as another machine says they are.

use std::collections::HashSet;

use super::message::Refusal;
use crate::federation::Task;
use crate::read::arrays::MAX_CLASSES;
use crate::scale::Scaling;

/// Most features of an input: what a network sets memory aside for follows from it.
pub(super) const MOST_FEATURES: usize = 1 << 24;

/// The features of an input of this shape, where a network can have such inputs.
pub(super) fn features(shape: &[usize]) -> Option<usize> {
    let product = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))?;
    ([1, 3].contains(&shape.len()) && (1..=MOST_FEATURES).contains(&product)).then_some(product)
}

/// Refuses shapes, tasks and lists of classes that no data has.
pub(super) fn check_form(shape: &[usize], task: Task, class_names: Option<&[String]>) -> Result<(), Refusal> {
    if features(shape).is_none() {
        let expected =
            format!("[features] or [channels, height, width], 1 to {MOST_FEATURES} features in all");
        return Err((format!("inputs of shape {shape:?}"), expected));
    }
    let (size, what) = match task {
        Task::Classification { classes } => (classes, "classes"),
        Task::Regression { outputs } => (outputs, "outputs"),
    };
    if !(1..=MAX_CLASSES).contains(&size) {
        return Err((format!("{size} {what}"), format!("1 to {MAX_CLASSES}")));
    }
    let Some(names) = class_names else { return Ok(()) };
    if task != (Task::Classification { classes: names.len() }) {
        return Err((format!("{} names of classes", names.len()), task_in_words(task)));
    }
    check_classes(names)
}

/// Refuses lists of classes in which one is empty or there twice.
pub(super) fn check_classes(names: &[String]) -> Result<(), Refusal> {
    let different: HashSet<&String> = names.iter().collect();
    let each = !names.is_empty() && names.len() <= MAX_CLASSES && different.len() == names.len();
    if each && names.iter().all(|name| !name.is_empty()) {
        return Ok(());
    }
    let expected = format!("1 to {MAX_CLASSES} names, each once and none empty");
    Err((format!("{} names of classes, {} of them different", names.len(), different.len()), expected))
}

/// Refuses a scale of targets that would divide by nothing, or is of something else than these targets.
pub(super) fn check_scaling(scaling: Option<&Scaling>, task: Task) -> Result<(), Refusal> {
    let Some(scaling) = scaling else { return Ok(()) };
    let usable = |numbers: &[f64]| numbers.iter().all(|number| number.is_finite());
    let fits = task == (Task::Regression { outputs: scaling.mean.len() })
        && scaling.std.len() == scaling.mean.len()
        && usable(&scaling.mean)
        && usable(&scaling.std)
        && scaling.std.iter().all(|&std| std > 0.0);
    if fits {
        return Ok(());
    }
    let found = format!("a scale of {} targets", scaling.mean.len());
    Err((found, format!("finite means and positive standard deviations for {}", task_in_words(task))))
}

pub(super) fn task_in_words(task: Task) -> String {
    let (size, one, many) = match task {
        Task::Classification { classes } => (classes, "class", "classes"),
        Task::Regression { outputs } => (outputs, "number to predict", "numbers to predict"),
    };
    format!("{size} {}", if size == 1 { one } else { many })
}
