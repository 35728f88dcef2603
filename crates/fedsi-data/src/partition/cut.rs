//! Cutting one client's rows into training and test rows.

use fedsi_random::ChaCha8Rng;
use rand::seq::SliceRandom as _;

use super::proportions::apportion;
use super::{ClientRows, Table};

/// Cuts `test` of the rows off for testing, each class in proportion to its size. Within a class the choice is
/// the stream's; rows come out class by class.
pub(super) fn stratified(
    table: &Table<'_>,
    rows: &[u32],
    test: usize,
    stream: &mut ChaCha8Rng,
) -> ClientRows {
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
