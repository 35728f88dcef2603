//! Columns that tell the target by themselves.

use std::collections::HashMap;

use super::column_kind::Value;
use super::encoding::ColumnEncoding;
use super::sheet::Sheet;
use crate::scale;

/// Training rows from which on it can be told.
const ENOUGH: usize = 30;
/// Rows that a rule may get wrong, for each that guessing the most frequent class gets wrong.
const FEW_WRONG: f64 = 0.01;
/// Rows to each different value of a column: with fewer, values tell anything.
const ROWS_A_VALUE: usize = 5;
/// Rows of a class from which on it can be told that a column tells it from the others.
const ENOUGH_OF_A_CLASS: usize = 10;
/// A correlation with a regression target above which a column is the target.
const SAME: f64 = 0.999;

/// What is predicted, row by row of the table.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// The class of each row.
    Classes(&'a [u32]),
    /// Rows x outputs.
    Values(&'a [f64], usize),
}

/// How a column tells the target of the training rows by itself, where it does.
pub(super) fn gives_away(
    column: &ColumnEncoding,
    place: usize,
    sheet: &Sheet,
    rows: &[u32],
    outcome: Outcome<'_>,
) -> Option<String> {
    if rows.len() < ENOUGH {
        return None;
    }
    match outcome {
        Outcome::Values(values, outputs) => {
            let numbers = numbers(column, place, sheet, rows);
            let alike = |output: usize| {
                let pairs =
                    numbers.iter().map(|&(row, value)| (value, values[row as usize * outputs + output]));
                correlation(&pairs.collect::<Vec<_>>()).is_some_and(|found| found.abs() > SAME)
            };
            (0..outputs).any(alike).then(|| "is the target but for a factor".to_owned())
        }
        Outcome::Classes(labels) => {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            for &row in rows {
                *counts.entry(labels[row as usize]).or_default() += 1;
            }
            let wrong_by_guess = rows.len() - counts.values().copied().max().unwrap_or(0);
            if counts.len() < 2 {
                return None;
            }
            let allowed = (FEW_WRONG * wrong_by_guess as f64) as usize;
            let by_value = classes_by_value(column, place, sheet, rows, labels);
            if by_value.as_ref().is_some_and(|found| wrong_by_value(found, rows.len()) <= allowed) {
                return Some("tells the class of the training rows by itself".to_owned());
            }
            if tells_one_class(&classes_by_presence(column, place, sheet, rows, labels), &counts) {
                return Some("is there for one class of the training rows and for no other".to_owned());
            }
            if by_value.is_some_and(|found| tells_one_class(&found, &counts)) {
                return Some("has values that one class of the training rows has and no other".to_owned());
            }
            let numbers = numbers(column, place, sheet, rows);
            // Rows without a value are guessed.
            let known = rows.len() - numbers.len() <= allowed;
            (known && divided(numbers, labels, counts.len(), allowed))
                .then(|| "tells the class of the training rows by thresholds alone".to_owned())
        }
    }
}

fn numbers(column: &ColumnEncoding, place: usize, sheet: &Sheet, rows: &[u32]) -> Vec<(u32, f64)> {
    let number = |&row: &u32| match column.read(&sheet.value(row as usize, place)) {
        Value::Number(value) => Some((row, value)),
        _ => None,
    };
    rows.iter().filter_map(number).collect()
}

/// How many rows of each class have each value of a column.
type ClassesOfValues = HashMap<Vec<u8>, HashMap<u32, usize>>;

/// The classes of rows with the same value, missing ones being a value too; none where values are too many.
fn classes_by_value(
    column: &ColumnEncoding,
    place: usize,
    sheet: &Sheet,
    rows: &[u32],
    labels: &[u32],
) -> Option<ClassesOfValues> {
    let mut classes = ClassesOfValues::new();
    for &row in rows {
        let cell = sheet.value(row as usize, place);
        let key = match column.read(&cell) {
            Value::Number(value) => value.to_le_bytes().to_vec(),
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Missing | Value::Unreadable => Vec::new(),
        };
        *classes.entry(key).or_default().entry(labels[row as usize]).or_default() += 1;
        if classes.len() * ROWS_A_VALUE > rows.len() {
            return None;
        }
    }
    Some(classes)
}

/// The classes of rows that have a value, and of those that have none.
fn classes_by_presence(
    column: &ColumnEncoding,
    place: usize,
    sheet: &Sheet,
    rows: &[u32],
    labels: &[u32],
) -> ClassesOfValues {
    let mut classes = ClassesOfValues::new();
    for &row in rows {
        let is_missing = column.read(&sheet.value(row as usize, place)) == Value::Missing;
        let key = vec![u8::from(is_missing)];
        *classes.entry(key).or_default().entry(labels[row as usize]).or_default() += 1;
    }
    classes
}

/// Rows that are not of the most frequent class among those with the same value.
fn wrong_by_value(classes: &ClassesOfValues, rows: usize) -> usize {
    let right: usize = classes.values().filter_map(|counts| counts.values().max()).sum();
    rows - right
}

/// Whether some values belong to one class, nearly all of its rows and nearly no others; `counts` are the rows of each class.
fn tells_one_class(classes: &ClassesOfValues, counts: &HashMap<u32, usize>) -> bool {
    counts.iter().any(|(class, &rows)| {
        let (mut right, mut wrong) = (0, 0);
        for of_value in classes.values() {
            let (own, all) = (of_value.get(class).copied().unwrap_or(0), of_value.values().sum::<usize>());
            if 2 * own > all {
                right += own;
                wrong += all - own;
            }
        }
        // What all values do says nothing.
        let others: usize = counts.values().sum::<usize>() - rows;
        let tells = wrong + (rows - right) <= (FEW_WRONG * rows as f64) as usize;
        rows >= ENOUGH_OF_A_CLASS && others >= ENOUGH_OF_A_CLASS && tells
    })
}

/// Whether, sorted by their numbers, rows fall into one range for each class: two classes with few exceptions, more than two
/// without any.
fn divided(mut numbers: Vec<(u32, f64)>, labels: &[u32], classes: usize, allowed: usize) -> bool {
    numbers.sort_by(|a, b| a.1.total_cmp(&b.1));
    let class = |at: usize| labels[numbers[at].0 as usize];
    let new_value = |at: usize| numbers[at].1 > numbers[at - 1].1;
    if classes > 2 {
        let mut changes = (1..numbers.len()).filter(|&at| class(at) != class(at - 1));
        let (mut count, mut clean) = (0, true);
        changes.by_ref().for_each(|at| {
            count += 1;
            clean &= new_value(at);
        });
        return clean && count + 1 == classes;
    }
    let Some(&(first, _)) = numbers.first() else { return false };
    let one = labels[first as usize];
    let ones = (0..numbers.len()).filter(|&at| class(at) == one).count();
    let others = numbers.len() - ones;
    // Rows below a threshold: so many of the one class, so many of the other.
    let (mut ones_below, mut others_below) = (0, 0);
    for at in 0..numbers.len() {
        if at > 0 && new_value(at) {
            let wrong = (others_below + ones - ones_below).min(ones_below + others - others_below);
            if wrong <= allowed {
                return true;
            }
        }
        if class(at) == one { ones_below += 1 } else { others_below += 1 }
    }
    false
}

/// Pearson's correlation; none of constants.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    if pairs.len() < ENOUGH {
        return None;
    }
    let of =
        |side: fn(&(f64, f64)) -> f64| scale::mean_and_deviation(&pairs.iter().map(side).collect::<Vec<_>>());
    let ((x, x_std), (y, y_std)) = (of(|pair| pair.0), of(|pair| pair.1));
    if x_std <= f64::EPSILON * x.abs() || y_std <= f64::EPSILON * y.abs() {
        return None;
    }
    let found: f64 = pairs.iter().map(|pair| ((pair.0 - x) / x_std) * ((pair.1 - y) / y_std) / count).sum();
    found.is_finite().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_found() {
        let rows = |values: &[f64]| -> Vec<(u32, f64)> { (0..).zip(values.iter().copied()).collect() };
        assert!(divided(rows(&[1.0, 5.0, 2.0, 6.0]), &[0, 1, 0, 1], 2, 0));
        assert!(!divided(rows(&[1.0, 5.0, 7.0, 6.0]), &[0, 1, 0, 1], 2, 0));
        assert!(divided(rows(&[1.0, 5.0, 7.0, 6.0]), &[0, 1, 0, 1], 2, 1), "one exception");
        assert!(!divided(rows(&[1.0, 1.0, 1.0, 1.0]), &[0, 1, 0, 1], 2, 0));
        assert!(divided(rows(&[1.0, 5.0, 9.0]), &[2, 0, 1], 3, 0));
        assert!(!divided(rows(&[1.0, 5.0, 9.0, 9.5]), &[2, 0, 1, 0], 3, 0));
    }

    /// Values 1 and 2 belong to class 2 alone; presence tells nothing of it.
    #[test]
    fn values_of_one_class_are_found() {
        let of = |pairs: &[(u32, usize)]| -> HashMap<u32, usize> { pairs.iter().copied().collect() };
        let counts = of(&[(0, 50), (1, 40), (2, 20)]);
        let values = |second: &[(u32, usize)]| {
            ClassesOfValues::from([
                (vec![0], of(&[(0, 50), (1, 40)])),
                (vec![1], of(&[(2, 12)])),
                (vec![2], of(second)),
            ])
        };
        assert!(tells_one_class(&values(&[(2, 8)]), &counts));
        assert!(!tells_one_class(&values(&[(2, 7), (1, 1)]), &counts), "a row of another class");
        let few = of(&[(0, 50), (2, 5)]);
        let rare = ClassesOfValues::from([(vec![0], of(&[(0, 50)])), (vec![1], of(&[(2, 5)]))]);
        assert!(!tells_one_class(&rare, &few), "five rows may be chance");
    }

    #[test]
    fn a_factor_is_a_correlation_of_one() {
        let line: Vec<(f64, f64)> = (0..40).map(|at| (f64::from(at), 7.0 - 3.0 * f64::from(at))).collect();
        assert!((correlation(&line).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&[(1.0, 2.0); 40]), None);
    }
}
