//! Partitions of rows that a caller describes by arrays, without a dataset.

use super::owned::numbered;
use super::{ClientRows, Owners, Table, partition};
use crate::error::DataError;
use crate::spec::PartitionSpec;

/// What is known of the rows that are to be divided: each array has an entry a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowArrays<'a> {
    /// How many rows there are.
    pub rows: usize,
    /// The class of each; none: partitions by classes are refused.
    pub labels: Option<&'a [u32]>,
    /// Whose each is, for the kind `natural`.
    pub owners: Option<&'a [String]>,
    /// Rows with equal numbers are at one client, and all trained on or all tested.
    pub groups: Option<&'a [u32]>,
    /// When each is from: the newest of a client's are its test rows.
    pub times: Option<&'a [f64]>,
}

/// Divides rows among clients as a run with these settings and this seed divides the rows of its table: the same draws,
/// the same rows. `spec.group` and `spec.time` are not read: the arrays say it. Costs a shuffle of all rows.
///
/// # Errors
/// Arrays of another length than there are rows, a time that is not a number, settings that these rows cannot satisfy.
pub fn partition_rows(
    arrays: &RowArrays<'_>,
    spec: &PartitionSpec,
    seed: u64,
) -> Result<Vec<ClientRows>, DataError> {
    let rows = arrays.rows;
    if u32::try_from(rows).is_err() {
        return Err(DataError::setting("rows", rows, "fewer than 2^32"));
    }
    let lengths = [
        ("labels", arrays.labels.map(<[_]>::len)),
        ("owners", arrays.owners.map(<[_]>::len)),
        ("groups", arrays.groups.map(<[_]>::len)),
        ("times", arrays.times.map(<[_]>::len)),
    ];
    for (name, found) in lengths {
        if let Some(found) = found.filter(|&found| found != rows) {
            let expected = format!("{rows}, an entry a row");
            return Err(DataError::setting(name, format!("{found} entries"), expected));
        }
    }
    if let Some(row) = arrays.times.and_then(|times| times.iter().position(|time| time.is_nan())) {
        return Err(DataError::setting("times", format!("NaN in row {row}"), "numbers"));
    }
    let classes = arrays.labels.and_then(|labels| labels.iter().max()).map_or(1, |&most| most as usize + 1);
    let owners = arrays.owners.map(|given| {
        let (names, of_row) = numbered(given);
        Owners { names, of_row }
    });
    // What the checks of settings go by; columns have names there.
    let named = |given: bool, name: &str| if given { name.to_owned() } else { String::new() };
    let spec = PartitionSpec {
        group: named(arrays.groups.is_some(), "groups"),
        time: named(arrays.times.is_some(), "times"),
        ..spec.clone()
    };
    let table = Table {
        rows,
        labels: arrays.labels,
        classes,
        owners: owners.as_ref(),
        train_rows: None,
        kept: None,
        groups: arrays.groups,
        times: arrays.times,
    };
    partition(&table, &spec, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PartitionKind;

    fn labels() -> Vec<u32> {
        (0..120).map(|row| row % 4).collect()
    }

    #[test]
    fn every_row_is_dealt_once() {
        let labels = labels();
        let arrays = RowArrays { rows: 120, labels: Some(&labels), ..RowArrays::default() };
        for kind in
            [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::Dirichlet, PartitionKind::Shards]
        {
            let spec = PartitionSpec { kind, labels_per_client: 2, ..PartitionSpec::iid(4) };
            let clients = partition_rows(&arrays, &spec, 1).unwrap();
            let mut all: Vec<u32> =
                clients.iter().flat_map(|client| client.train.iter().chain(&client.test)).copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..120).collect::<Vec<_>>(), "{kind}");
        }
    }

    #[test]
    fn groups_stay_together_and_the_newest_are_tested() {
        let groups: Vec<u32> = (0..120).map(|row| row / 6).collect();
        let arrays = RowArrays { rows: 120, groups: Some(&groups), ..RowArrays::default() };
        let spec = PartitionSpec::iid(4);
        let clients = partition_rows(&arrays, &spec, 1).unwrap();
        let sides = clients.iter().flat_map(|client| [&client.train, &client.test]);
        let found: usize = sides
            .map(|rows| rows.iter().map(|&row| row / 6).collect::<std::collections::HashSet<_>>().len())
            .sum();
        assert_eq!(found, 20, "a group is on one side of one client");
        let times: Vec<f64> = (0..120).map(f64::from).collect();
        let arrays = RowArrays { rows: 120, times: Some(&times), ..RowArrays::default() };
        for client in partition_rows(&arrays, &spec, 1).unwrap() {
            assert!(client.train.iter().max() < client.test.iter().min(), "{client:?}");
        }
    }

    #[test]
    fn owners_are_clients_and_faults_are_named() {
        let owners: Vec<String> = (0..20).map(|row| if row < 12 { "b" } else { "a" }.to_owned()).collect();
        let arrays = RowArrays { rows: 20, owners: Some(&owners), ..RowArrays::default() };
        let spec = PartitionSpec { kind: PartitionKind::Natural, ..PartitionSpec::iid(1) };
        let clients = partition_rows(&arrays, &spec, 1).unwrap();
        assert_eq!(clients.iter().map(|one| one.name.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
        let short = RowArrays { rows: 21, ..arrays };
        assert!(partition_rows(&short, &spec, 1).unwrap_err().to_string().contains("20 entries"));
        let times = [f64::NAN; 2];
        let arrays = RowArrays { rows: 2, times: Some(&times), ..RowArrays::default() };
        let error = partition_rows(&arrays, &PartitionSpec::iid(1), 1).unwrap_err();
        assert!(error.to_string().contains("NaN in row 0"), "{error}");
    }
}
