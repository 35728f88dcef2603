//! Cutting one client's rows into training and test rows: at random within classes, group by group, or by time.

use std::collections::HashMap;

use fedsi_random::ChaCha8Rng;
use rand::seq::SliceRandom as _;

use super::groups::{Unit, units};
use super::proportions::apportion;
use super::{ClientRows, Table};
use crate::federation::Split;

/// On which side of the cut groups are that were cut before, at this client or another.
pub(super) type Sides = HashMap<u32, Split>;

/// Cuts `test` of the rows off for testing, or about as many, as the table asks: the newest, whole groups, or by chance.
pub(super) fn divided(
    table: &Table<'_>,
    rows: &[u32],
    test: usize,
    sides: &mut Sides,
    stream: &mut ChaCha8Rng,
) -> ClientRows {
    match (table.times, table.groups) {
        (Some(times), _) => newest(times, rows, test),
        (None, Some(groups)) => by_groups(table, groups, rows, test, sides, stream),
        (None, None) => stratified(table, rows, test, stream),
    }
}

/// Cuts the `test` newest rows off. Rows as old as the newest one that is trained on are trained on too, so that fewer may
/// be tested: none where all are of one time.
fn newest(times: &[f64], rows: &[u32], test: usize) -> ClientRows {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|&a, &b| times[a as usize].total_cmp(&times[b as usize]).then(a.cmp(&b)));
    let last = sorted.len().saturating_sub(test).saturating_sub(1);
    let Some(&newest) = sorted.get(last) else { return ClientRows::default() };
    let newest = times[newest as usize];
    let (train, test) = sorted.into_iter().partition(|&row| times[row as usize] <= newest);
    ClientRows { name: None, train, test }
}

/// Cuts whole groups off until about `test` rows are, each class in proportion to its size, a group counting for its most
/// frequent class. Groups that have a side keep it. One group at least is trained on; where there are others, and any test
/// rows are wanted, one at least is tested.
fn by_groups(
    table: &Table<'_>,
    groups: &[u32],
    rows: &[u32],
    test: usize,
    sides: &mut Sides,
    stream: &mut ChaCha8Rng,
) -> ClientRows {
    let mut classes: Vec<Vec<Unit>> = (0..table.classes).map(|_| Vec::new()).collect();
    for unit in units(table, groups, rows) {
        classes[unit.class].push(unit);
    }
    let size = |units: &[Unit]| units.iter().map(|unit| unit.rows.len()).sum::<usize>();
    let sizes: Vec<f64> = classes.iter().map(|units| size(units) as f64).collect();
    let shares = apportion(&sizes, test.min(rows.len()));
    // Groups without a side so far, and on which they come.
    let mut free: Vec<(u32, usize, Split)> = Vec::new();
    let mut tested = 0;
    let mut trained = 0;
    for (units, share) in classes.iter_mut().zip(shares) {
        units.shuffle(stream);
        let fixed = units.iter().filter(|unit| sides.get(&unit.group) == Some(&Split::Test));
        let mut own = fixed.map(|unit| unit.rows.len()).sum::<usize>();
        for unit in units.iter() {
            let rows = unit.rows.len();
            if let Some(side) = sides.get(&unit.group) {
                trained += if *side == Split::Train { rows } else { 0 };
                continue;
            }
            // A group is tested where that brings the tested rows nearer to their share.
            let side = if 2 * own + rows <= 2 * share { Split::Test } else { Split::Train };
            own += if side == Split::Test { rows } else { 0 };
            trained += if side == Split::Train { rows } else { 0 };
            free.push((unit.group, rows, side));
        }
        tested += own;
    }
    let wanted = if trained == 0 {
        Some(Split::Train)
    } else if tested == 0 && test > 0 && free.len() > 1 {
        Some(Split::Test)
    } else {
        None
    };
    if let Some(side) = wanted
        && let Some(smallest) = free.iter_mut().min_by_key(|(_, rows, _)| *rows)
    {
        smallest.2 = side;
    }
    sides.extend(free.into_iter().map(|(group, _, side)| (group, side)));
    let mut cut = ClientRows::default();
    for unit in classes.into_iter().flatten() {
        let side = if sides.get(&unit.group) == Some(&Split::Test) { &mut cut.test } else { &mut cut.train };
        side.extend(unit.rows);
    }
    cut
}

/// Cuts `test` of the rows off for testing, each class in proportion to its size. Within a class the choice is
/// the stream's; rows come out class by class.
fn stratified(table: &Table<'_>, rows: &[u32], test: usize, stream: &mut ChaCha8Rng) -> ClientRows {
    let mut classes: Vec<Vec<u32>> = vec![Vec::new(); table.classes];
    for &row in rows {
        classes[table.class(row)].push(row);
    }
    let sizes: Vec<f64> = classes.iter().map(|class| class.len() as f64).collect();
    let shares = apportion(&sizes, test.min(rows.len()));
    let mut cut = ClientRows {
        name: None,
        train: Vec::with_capacity(rows.len() - test.min(rows.len())),
        test: Vec::with_capacity(test),
    };
    for (mut class, share) in classes.into_iter().zip(shares) {
        class.shuffle(stream);
        let (train, test) = class.split_at(class.len() - share.min(class.len()));
        cut.train.extend_from_slice(train);
        cut.test.extend_from_slice(test);
    }
    cut
}

/// How many of `rows` rows a fraction cuts off: rounded, at least one where there are two rows to share, and
/// never the last one, which training needs.
pub(super) fn test_rows(rows: usize, fraction: f64) -> usize {
    if fraction <= 0.0 || rows < 2 {
        return 0;
    }
    ((rows as f64 * fraction).round() as usize).clamp(1, rows - 1)
}
