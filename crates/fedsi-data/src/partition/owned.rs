//! Partitions in which each row already belongs to someone.

use std::collections::HashSet;

use fedsi_random::{Purpose, Streams};

use super::cut::Sides;
use super::{ClientRows, Table, cut};
use crate::error::{DataError, quoted};
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
    let rows = owners.of_row.iter().enumerate().filter(|(row, _)| table.keeps(*row as u32));
    let rows = rows.map(|(row, &owner)| {
        let split = table.train_rows.map(|first| if row < first { Split::Train } else { Split::Test });
        (row as u32, owner as usize, split)
    });
    gather(table, 0, owners.names.clone(), rows, spec, streams)
}

/// All rows of a table as those of one client, cut as [`natural`] cuts the rows of the client with this number.
pub(super) fn alone(
    table: &Table<'_>,
    client: u64,
    name: &str,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let rows = (0..table.rows as u32).filter(|&row| table.keeps(row));
    let rows = rows.map(|row| {
        let side = |first: usize| if (row as usize) < first { Split::Train } else { Split::Test };
        (row, 0, table.train_rows.map(side))
    });
    gather(table, client, vec![name.to_owned()], rows, spec, streams)
}

/// Gives rows to their owners; rows without a split are cut by the fraction. Rows of one group are on one side, also where
/// they are at several clients. `first` is the number of the first client, which decides how its rows are cut.
pub(super) fn gather(
    table: &Table<'_>,
    first: u64,
    names: Vec<String>,
    rows: impl Iterator<Item = (u32, usize, Option<Split>)>,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let mut clients: Vec<ClientRows> =
        names.into_iter().map(|name| ClientRows { name: Some(name), ..ClientRows::default() }).collect();
    let mut uncut: Vec<Vec<u32>> = vec![Vec::new(); clients.len()];
    let mut sides = Sides::new();
    for (row, owner, split) in rows {
        if let (Some(split), Some(groups)) = (split, table.groups)
            && *sides.entry(groups[row as usize]).or_insert(split) != split
        {
            let expected = "a column whose rows of one value are all for training or all for testing, as the split column \
                            of partition.path has it";
            return Err(DataError::setting("partition.group", quoted(&spec.group), expected));
        }
        match split {
            Some(Split::Train) => clients[owner].train.push(row),
            Some(Split::Test) => clients[owner].test.push(row),
            None => uncut[owner].push(row),
        }
    }
    // A group may be at several clients: those with the fewest groups choose first, as one group must be trained on.
    let mut order: Vec<usize> = (0..clients.len()).collect();
    if let Some(groups) = table.groups {
        let groups_of = |client: &usize| {
            uncut[*client].iter().map(|&row| groups[row as usize]).collect::<HashSet<_>>().len()
        };
        order.sort_by_cached_key(groups_of);
    }
    for number in order {
        let rows = std::mem::take(&mut uncut[number]);
        let mut stream = streams.stream(Purpose::Partition, first + number as u64, CUT);
        let test = cut::test_rows(rows.len(), spec.test_fraction);
        let cut = cut::divided(table, &rows, test, &mut sides, &mut stream);
        clients[number].train.extend(cut.train);
        clients[number].test.extend(cut.test);
    }
    Ok(clients)
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
