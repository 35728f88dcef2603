//! What has changed in the columns of a table: each client's new rows beside its own training rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use fedsi_data::InputRows;
use fedsi_data::table::{ColumnEncoding, ColumnKind, ColumnRange, outside};
use fedsi_metrics::{Exceedances, SharePair, exceedance_test, stratified_fisher_test};
use serde::Serialize;

use super::super::predict::answer::used_cells;
use super::super::predict::assign::Group;
use super::drift::DriftTest;

/// What is told of a column, and not tested.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Note {
    /// The column's name.
    pub(super) of: String,
    /// What was found, in words.
    pub(super) found: String,
}

/// What new rows have in one column.
#[derive(Clone, Debug, Default)]
struct Column {
    /// Rows with a value; without.
    values: usize,
    missing: usize,
    /// Values below and above the training rows'.
    below: usize,
    above: usize,
    /// Categories that training rows do not have, cells that cannot be read, values where training rows have none.
    unseen: usize,
    unreadable: usize,
    unexpected: usize,
    /// The first number or date that is outside, the first such category, and the first such cell, in words.
    outside_example: Option<String>,
    unseen_example: Option<String>,
    unreadable_example: Option<String>,
    /// By client, where its number of training values is known: values beyond its own, and values that are missing.
    exceedances: Vec<Exceedances>,
    shares: Vec<SharePair>,
    /// Whether there are numbers or dates that could be tested, were that number known.
    untested: bool,
}

impl Column {
    /// Adds the cells of one client.
    fn add<'a>(
        &mut self,
        (column, range): (&ColumnEncoding, &ColumnRange),
        cells: impl Iterator<Item = &'a str>,
        known: Option<(usize, usize)>,
    ) {
        let (mut own, mut values, mut missing) = (Exceedances::default(), 0, 0);
        for cell in cells {
            if !column.has_value(cell) {
                missing += 1;
                if !column.is_missing(cell) {
                    self.unreadable += 1;
                    note_first(&mut self.unreadable_example, column, range, cell);
                }
                continue;
            }
            values += 1;
            match column.side(range, cell) {
                Some(side) => {
                    own.new += 1;
                    own.below += usize::from(side == Ordering::Less);
                    own.above += usize::from(side == Ordering::Greater);
                    if side != Ordering::Equal {
                        note_first(&mut self.outside_example, column, range, cell);
                    }
                }
                None if *range == ColumnRange::Nothing => self.unexpected += 1,
                None if is_unseen(column, range, cell) => {
                    self.unseen += 1;
                    note_first(&mut self.unseen_example, column, range, cell);
                }
                None => {}
            }
        }
        self.values += values;
        self.missing += missing;
        self.below += own.below;
        self.above += own.above;
        match known {
            Some((values_known, missing_known)) => {
                self.exceedances.push(Exceedances { known: values_known, ..own });
                self.shares
                    .push(((missing, values + missing), (missing_known, values_known + missing_known)));
            }
            None => self.untested = true,
        }
    }

    fn outside_test(&self, name: &str) -> Option<DriftTest> {
        let tested = self.exceedances.iter().any(|own| own.known > 0 && own.new > 0);
        if !tested || self.untested {
            return None;
        }
        let p = exceedance_test(&self.exceedances);
        Some(DriftTest {
            of: name.to_owned(),
            what: "values outside the training rows'",
            p,
            adjusted_p: p,
            found: self.outside_words(),
        })
    }

    fn outside_words(&self) -> String {
        format!(
            "{} of {} values are below the training rows' and {} above{}",
            self.below,
            self.values,
            self.above,
            such_as(self.outside_example.as_ref())
        )
    }

    /// Whether values are missing more or less often than in the same clients' training rows.
    fn missing_test(&self, name: &str) -> Option<DriftTest> {
        if self.untested || self.shares.is_empty() {
            return None;
        }
        let p = stratified_fisher_test(&self.shares);
        let rows = (self.values + self.missing).max(1) as f64;
        // As many as there would be if each client's values were missing as often as in its training rows.
        let expected: f64 = self
            .shares
            .iter()
            .map(|&((_, new), (missing, known))| new as f64 * missing as f64 / known.max(1) as f64)
            .sum();
        let found = format!(
            "missing in {:.1}% of new rows, in {:.1}% of the same clients' training rows",
            100.0 * self.missing as f64 / rows,
            100.0 * expected / rows
        );
        Some(DriftTest { of: name.to_owned(), what: "missing values", p, adjusted_p: p, found })
    }

    fn notes(&self, name: &str) -> Vec<Note> {
        const WHY: &str = "not tested: a model file does not say how many values its training rows have";
        let mut found = Vec::new();
        if self.untested && self.below + self.above > 0 {
            found.push(format!("{} ({WHY})", self.outside_words()));
        }
        if self.untested && self.missing > 0 {
            found.push(format!("missing in {} of {} rows ({WHY})", self.missing, self.values + self.missing));
        }
        if self.unseen > 0 {
            found.push(format!(
                "{} of {} values are categories that training rows do not have{}",
                self.unseen,
                self.values,
                such_as(self.unseen_example.as_ref())
            ));
        }
        if self.unexpected > 0 {
            found.push(format!("{} values of clients whose training rows have none", self.unexpected));
        }
        if self.unreadable > 0 {
            let example = such_as(self.unreadable_example.as_ref());
            let cells = if self.unreadable == 1 { "cell" } else { "cells" };
            found.push(format!("{} {cells} of no such kind, taken as missing{example}", self.unreadable));
        }
        found.into_iter().map(|found| Note { of: name.to_owned(), found }).collect()
    }
}

fn such_as(example: Option<&String>) -> String {
    example.map(|text| format!(", such as {text}")).unwrap_or_default()
}

/// Puts a value outside into words, where it is the first.
fn note_first(example: &mut Option<String>, column: &ColumnEncoding, range: &ColumnRange, cell: &str) {
    if example.is_none() {
        *example = outside_of(column, range, cell).into_iter().next();
    }
}

/// Whether a category or boolean is none that training rows have.
fn is_unseen(column: &ColumnEncoding, range: &ColumnRange, cell: &str) -> bool {
    let ColumnRange::Categories(known) = range else { return false };
    match column.kind {
        ColumnKind::Category => !known.iter().any(|known| known == cell.trim()),
        // Training rows with both leave none.
        _ => known.len() < 2 && !outside_of(column, range, cell).is_empty(),
    }
}

fn outside_of(column: &ColumnEncoding, range: &ColumnRange, cell: &str) -> Vec<String> {
    let encoding = fedsi_data::TableEncoding { columns: vec![column.clone()], left_out: Vec::new() };
    let found = outside(&encoding, std::slice::from_ref(range), &[cell.to_owned()]);
    found.into_iter().map(|value| value.text).collect()
}

/// Tests of every column, where models know what their clients' training rows have and how many: of numbers and dates
/// outside of that, and of values that are missing. What cannot be tested is told.
pub(super) fn tests(groups: &[Group], inputs: &InputRows) -> (Vec<DriftTest>, Vec<Note>) {
    let Some(table) = &inputs.table else { return (Vec::new(), Vec::new()) };
    let mut columns: BTreeMap<&str, Column> = BTreeMap::new();
    for group in groups {
        let (Some(encoding), Some(ranges)) = (group.model.encoding(), group.model.ranges()) else { continue };
        let counts = group.model.value_counts();
        for (at, (encoded, range)) in encoding.columns.iter().zip(ranges).enumerate() {
            let cells =
                group.rows.iter().filter_map(|&row| used_cells(table, row).get(at)).map(String::as_str);
            let known = counts.and_then(|counts| counts.get(at)).map(|count| (count.values, count.missing));
            columns.entry(&encoded.name).or_default().add((encoded, range), cells, known);
        }
    }
    let mut tests: Vec<DriftTest> =
        columns.iter().filter_map(|(name, column)| column.outside_test(name)).collect();
    tests.extend(columns.iter().filter_map(|(name, column)| column.missing_test(name)));
    let notes = columns.iter().flat_map(|(name, column)| column.notes(name)).collect();
    (tests, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number() -> (ColumnEncoding, ColumnRange) {
        (ColumnEncoding::number("x"), ColumnRange::Numbers { min: 0.0, max: 1.0 })
    }

    fn column(cells: &[&str], known: Option<(usize, usize)>) -> Column {
        let (encoding, range) = number();
        let mut column = Column::default();
        column.add((&encoding, &range), cells.iter().copied(), known);
        column
    }

    #[test]
    fn sides_are_counted_and_tested() {
        let found = column(&["0.5", "1.5", "1.7", "-1", "", "high"], Some((98, 2)));
        assert_eq!((found.values, found.missing, found.below, found.above), (4, 2, 1, 2));
        assert_eq!(found.exceedances, [Exceedances { known: 98, new: 4, below: 1, above: 2 }]);
        // C(100, 98) / C(102, 98) = 4 * 3 / (102 * 101), two-sided.
        let test = found.outside_test("x").unwrap();
        assert!((test.p - 2.0 * 12.0 / (102.0 * 101.0)).abs() < 1e-12, "{test:?}");
        // 2 of 6 are missing, one of them unreadable, against 2 of 100.
        assert_eq!(found.shares, [((2, 6), (2, 100))]);
        assert!(found.notes("x").iter().any(|note| note.found.contains("1 cell of no such kind")));
    }

    #[test]
    fn nothing_outside_has_p_1_and_unknown_numbers_are_told() {
        let found = column(&["0.5"; 30], Some((100, 0)));
        assert_eq!(found.outside_test("x").unwrap().p, 1.0);
        assert_eq!(found.missing_test("x").unwrap().p, 1.0);
        assert_eq!(found.notes("x"), []);
        let found = column(&["7"; 30], None);
        assert_eq!((found.outside_test("x"), found.missing_test("x")), (None, None));
        let notes = found.notes("x");
        assert!(
            notes.len() == 1 && notes[0].found.contains("30 above") && notes[0].found.contains("not tested")
        );
    }

    /// One client measures x always, one never; now more rows of the second come.
    #[test]
    fn a_client_that_never_measures_is_no_drift() {
        let (encoding, range) = number();
        let mut column = Column::default();
        column.add((&encoding, &range), ["0.5"; 5].into_iter(), Some((100, 0)));
        column.add((&encoding, &ColumnRange::Nothing), [""; 200].into_iter(), Some((0, 100)));
        assert_eq!(column.missing_test("x").unwrap().p, 1.0);
        assert_eq!(column.outside_test("x").unwrap().p, 1.0);
        // The first stops measuring.
        let mut stopped = Column::default();
        stopped.add((&encoding, &range), [""; 5].into_iter(), Some((100, 0)));
        stopped.add((&encoding, &ColumnRange::Nothing), [""; 200].into_iter(), Some((0, 100)));
        let test = stopped.missing_test("x").unwrap();
        assert!(test.p < 0.001 && test.found.contains("100.0% of new rows"), "{test:?}");
    }

    #[test]
    fn categories_that_are_new_are_told() {
        let encoding = ColumnEncoding { kind: ColumnKind::Category, ..ColumnEncoding::number("ward") };
        let range = ColumnRange::Categories(vec!["a".to_owned(), "b".to_owned()]);
        let mut column = Column::default();
        column.add((&encoding, &range), ["a", "c", "c", "b"].into_iter(), Some((100, 0)));
        assert_eq!((column.unseen, column.outside_test("ward")), (2, None));
        assert!(column.notes("ward")[0].found.starts_with("2 of 4 values are categories"));
    }
}
