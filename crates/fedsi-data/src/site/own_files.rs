//! The rows of a site's own files, all of them its own, divided into training and test rows.

use std::collections::HashMap;

use super::message::MOST_SITES;
use crate::error::{DataError, quoted};
use crate::federation::Task;
use crate::partition::ClientRows;
use crate::pool::{Inputs, Pool, PoolInputs, PoolTargets};
use crate::read;
use crate::spec::{FilesSpec, PartitionKind, PartitionSpec};
use crate::table::is_table;

/// Reads a site's files. Refuses settings under which rows of several clients would be in them.
pub(super) fn read_own(spec: &FilesSpec, partition: &PartitionSpec) -> Result<Pool, DataError> {
    if !spec.client.is_empty() {
        let expected = "\"\", as all rows of a site's files are its own; a column that says so goes into \
                        data.files.ignore";
        return Err(DataError::setting("data.files.client", quoted(&spec.client), expected));
    }
    if !matches!(partition.kind, PartitionKind::Natural | PartitionKind::Iid) {
        let expected = "natural: a site has the rows of its own files, and nothing is dealt";
        return Err(DataError::setting("partition.kind", partition.kind, expected));
    }
    if partition.kind == PartitionKind::Iid && partition.train > 0 {
        let expected = "0: a site uses all rows of its own files";
        return Err(DataError::setting("partition.train", partition.train, expected));
    }
    let pool = read::open_files(spec, partition)?;
    if !is_table(&spec.train) {
        check_arrays(spec, &pool)?;
    }
    Ok(pool)
}

/// Arrays have no summary that sites could agree by: what depends on all rows must be known beforehand.
fn check_arrays(spec: &FilesSpec, pool: &Pool) -> Result<(), DataError> {
    let classes = matches!(pool.task, Task::Classification { .. });
    if spec.standardize && !(classes && is_pixels(pool)) {
        let expected =
            "false: sites agree on a scale for tables alone; scale arrays by ranges known beforehand";
        return Err(DataError::setting("data.files.standardize", true, expected));
    }
    if classes && spec.classes.is_empty() {
        let expected = "the names of the classes: the labels of one site do not say how many there are";
        return Err(DataError::setting("data.files.classes", "[]", expected));
    }
    Ok(())
}

pub(super) fn is_pixels(pool: &Pool) -> bool {
    matches!(pool.inputs, PoolInputs::Array(Inputs::Bytes(_)))
}

/// Which rows the client with this number trains on, and which test it.
pub(super) fn divide(
    pool: &Pool,
    partition: &PartitionSpec,
    seed: u64,
    client: usize,
    name: &str,
) -> Result<ClientRows, DataError> {
    if client >= MOST_SITES {
        let found = format!("client number {client}");
        return Err(DataError::site(name, found, format!("0 to {}", MOST_SITES - 1), "number sites from 0"));
    }
    pool.rows_of(client as u64, name, partition, seed)
}

/// Whether the client number decides which rows are for testing, and the order of the others: where rows are drawn.
pub(super) fn draws_rows(spec: &FilesSpec, partition: &PartitionSpec) -> bool {
    spec.test.as_os_str().is_empty() && partition.time.is_empty()
}

/// Gives the classes of a table the agreed numbers. Costs nothing where they are those of the table.
pub(super) fn renumber(pool: &mut Pool, agreed: &[String], site: &str) -> Result<(), DataError> {
    let (Some(own), PoolTargets::Classes(labels)) = (&pool.class_names, &mut pool.targets) else {
        let advice = "set data.files.task as the federation has it";
        return Err(DataError::site(site, "numbers to predict", "classes, as agreed", advice));
    };
    if own != agreed {
        let places: HashMap<&String, u32> = agreed.iter().zip(0..).collect();
        let place = |name: &String| {
            places.get(name).copied().ok_or_else(|| {
                let expected = format!("one of the agreed classes {}", quoted(&agreed.join(", ")));
                let advice = "remove such rows, or describe the data of all sites again";
                DataError::site(site, format!("class {}", quoted(name)), expected, advice)
            })
        };
        let numbers = own.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
        for label in labels {
            *label = numbers[*label as usize];
        }
    }
    pool.class_names = Some(agreed.to_vec());
    pool.task = Task::Classification { classes: agreed.len() };
    Ok(())
}
