//! Partitions in which each row already belongs to someone.

use fedsi_random::{Purpose, Streams};

use super::{ClientRows, Table, cut};
use crate::error::DataError;
use crate::federation::Split;
use crate::spec::PartitionSpec;

/// The third word of the key of the stream that cuts a client's rows.
const CUT: u64 = 1;

/// `natural`: the data's own clients.
pub(super) fn natural(
    table: &Table<'_>,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let Some(owners) = table.owners else {
        return Err(DataError::setting(
            "partition.kind",
            spec.kind,
            "labels, iid, dirichlet, shards or file, or the column of the clients in data.files.client",
        ));
    };
    let rows = owners.of_row.iter().enumerate().map(|(row, &owner)| {
        let split = table.train_rows.map(|first| if row < first { Split::Train } else { Split::Test });
        (row as u32, owner as usize, split)
    });
    Ok(gather(table, owners.names.clone(), rows, spec.test_fraction, streams))
}

/// Gives rows to their owners; rows without a split are cut by the fraction.
pub(super) fn gather(
    table: &Table<'_>,
    names: Vec<String>,
    rows: impl Iterator<Item = (u32, usize, Option<Split>)>,
    test_fraction: f64,
    streams: &Streams,
) -> Vec<ClientRows> {
    let mut clients: Vec<ClientRows> =
        names.into_iter().map(|name| ClientRows { name: Some(name), ..ClientRows::default() }).collect();
    let mut uncut: Vec<Vec<u32>> = vec![Vec::new(); clients.len()];
    for (row, owner, split) in rows {
        match split {
            Some(Split::Train) => clients[owner].train.push(row),
            Some(Split::Test) => clients[owner].test.push(row),
            None => uncut[owner].push(row),
        }
    }
    for (number, (client, rows)) in clients.iter_mut().zip(uncut).enumerate() {
        let mut stream = streams.stream(Purpose::Partition, number as u64, CUT);
        let cut = cut::stratified(table, &rows, cut::test_rows(rows.len(), test_fraction), &mut stream);
        client.train.extend(cut.train);
        client.test.extend(cut.test);
    }
    clients
}

/// Distinct names in the order of a reader: by number where all are whole numbers, else by letter. Answers the
/// names, and the number of each given name.
pub(crate) fn numbered(given: &[String]) -> (Vec<String>, Vec<u32>) {
    let mut names: Vec<&String> = given.iter().collect();
    names.sort_unstable();
    names.dedup();
    if names.iter().all(|name| name.parse::<i64>().is_ok()) {
        names.sort_by_key(|name| name.parse::<i64>().ok());
    }
    let number: std::collections::HashMap<&String, u32> =
        names.iter().enumerate().map(|(number, &name)| (name, number as u32)).collect();
    let numbers = given.iter().map(|name| number.get(name).copied().unwrap_or(0)).collect();
    (names.into_iter().cloned().collect(), numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_a_readers_order() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(numbered(&texts(&["10", "9", "10"])), (texts(&["9", "10"]), vec![1, 0, 1]));
        assert_eq!(numbered(&texts(&["b", "10", "a"])), (texts(&["10", "a", "b"]), vec![2, 0, 1]));
    }
}
