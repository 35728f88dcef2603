//! Rows that stay together.

use std::collections::HashMap;

use super::Table;

/// The rows of a group.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) group: u32,
    /// The class that most of its rows have; of several the first.
    pub(super) class: usize,
    pub(super) rows: Vec<u32>,
}

/// The groups of these rows, in the order of their first rows.
pub(super) fn units(table: &Table<'_>, groups: &[u32], rows: &[u32]) -> Vec<Unit> {
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut units: Vec<Unit> = Vec::new();
    for &row in rows {
        let group = groups[row as usize];
        let at = *places.entry(group).or_insert_with(|| {
            units.push(Unit { group, class: 0, rows: Vec::new() });
            units.len() - 1
        });
        units[at].rows.push(row);
    }
    for unit in &mut units {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for &row in &unit.rows {
            *counts.entry(table.class(row)).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|&(class, count)| (count, std::cmp::Reverse(class)));
        unit.class = most.map_or(0, |(class, _)| class);
    }
    units
}
