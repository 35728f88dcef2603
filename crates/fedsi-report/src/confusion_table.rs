//! Which classes are taken for which, as a table of shades; of many classes, the pairs that are confused most.

use fedsi_run::Summary;

/// Classes of a table that can be read; of more, pairs are listed.
const MAX_TABLE: usize = 20;

/// Pairs listed where there is no table.
const MAX_PAIRS: usize = 15;

/// A row of the table: a class and what its samples were taken for.
pub(crate) struct ConfusionRow {
    pub(crate) name: String,
    pub(crate) samples: usize,
    pub(crate) cells: Vec<ConfusionCell>,
}

/// One cell.
pub(crate) struct ConfusionCell {
    pub(crate) count: usize,
    /// How much of the row it is, in percent: its shade.
    pub(crate) share: usize,
    pub(crate) is_right: bool,
}

/// Two classes that are confused.
pub(crate) struct ConfusedPair {
    pub(crate) label: String,
    pub(crate) predicted: String,
    pub(crate) count: usize,
    pub(crate) of: usize,
}

/// What the page shows of the confusion matrix.
#[derive(Default)]
pub(crate) struct ConfusionTable {
    /// The classes' names, in order; empty where there are too many for a table.
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<ConfusionRow>,
    pub(crate) pairs: Vec<ConfusedPair>,
}

impl ConfusionTable {
    /// Of a run; empty where it has none, or where it does not fit its classes.
    pub(crate) fn of(summary: &Summary) -> Self {
        let matrix = &summary.details.confusion;
        let names: Vec<String> =
            summary.classes.iter().map(|class| fedsi_data::display_name(&class.name)).collect();
        let is_square = matrix.len() == names.len() && matrix.iter().all(|row| row.len() == names.len());
        if matrix.is_empty() || !is_square {
            return Self::default();
        }
        if names.len() > MAX_TABLE {
            return Self { pairs: pairs(&names, matrix), ..Self::default() };
        }
        let row = |(label, counts): (usize, &Vec<usize>)| {
            let samples: usize = counts.iter().sum();
            let cell = |(predicted, &count): (usize, &usize)| ConfusionCell {
                count,
                share: 100 * count / samples.max(1),
                is_right: predicted == label,
            };
            let cells = counts.iter().enumerate().map(cell).collect();
            ConfusionRow { name: names[label].clone(), samples, cells }
        };
        let rows = matrix.iter().enumerate().map(row).collect();
        Self { names, rows, pairs: Vec::new() }
    }
}

/// The pairs that are confused most, by how many samples.
fn pairs(names: &[String], matrix: &[Vec<usize>]) -> Vec<ConfusedPair> {
    let mut all = Vec::new();
    for (label, counts) in matrix.iter().enumerate() {
        let of: usize = counts.iter().sum();
        let confused =
            counts.iter().enumerate().filter(|(predicted, count)| *predicted != label && **count > 0);
        all.extend(confused.map(|(predicted, &count)| (count, label, predicted, of)));
    }
    all.sort_by(|a, b| b.0.cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    all.truncate(MAX_PAIRS);
    let pair = |(count, label, predicted, of): (usize, usize, usize, usize)| ConfusedPair {
        label: names[label].clone(),
        predicted: names[predicted].clone(),
        count,
        of,
    };
    all.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn summary(classes: usize, confusion: &[Vec<usize>]) -> Summary {
        let named: Vec<_> = (0..classes)
            .map(
                |class| json!({"name": format!("c{class}"), "samples": 1, "precision": null, "recall": null}),
            )
            .collect();
        serde_json::from_value(
            json!({"method": "fedsi", "dataset": "files", "size": "small", "seed": 1, "rounds": 2,
            "accuracy": 0.5, "classes": named, "confusion": confusion, "clients": [],
            "seconds": {"train": 0, "posterior": 0, "evaluate": 0, "total": 0}, "bytes": {"up": 0, "down": 0},
            "peak_rss_bytes": null, "version": "0"}),
        )
        .unwrap()
    }

    #[test]
    fn few_classes_are_a_table() {
        let found = ConfusionTable::of(&summary(2, &[vec![3, 1], vec![0, 0]]));
        assert_eq!(found.names, ["c0", "c1"]);
        let cells: Vec<_> =
            found.rows[0].cells.iter().map(|one| (one.count, one.share, one.is_right)).collect();
        assert_eq!((found.rows[0].samples, &cells[..]), (4, &[(3, 75, true), (1, 25, false)][..]));
        assert_eq!((found.rows[1].samples, found.rows[1].cells[1].share), (0, 0));
        assert!(
            ConfusionTable::of(&summary(3, &[vec![3, 1], vec![0, 0]])).rows.is_empty(),
            "it does not fit"
        );
        assert!(ConfusionTable::of(&summary(2, &[])).rows.is_empty());
    }

    #[test]
    fn of_many_the_most_confused_pairs_are_listed() {
        let mut matrix = vec![vec![0; 30]; 30];
        (matrix[4][7], matrix[2][1], matrix[2][2]) = (5, 9, 100);
        let found = ConfusionTable::of(&summary(30, &matrix));
        assert!(found.rows.is_empty() && found.pairs.len() == 2);
        let first = &found.pairs[0];
        assert_eq!(
            (first.label.as_str(), first.predicted.as_str(), first.count, first.of),
            ("c2", "c1", 9, 109)
        );
    }
}
