//! Who gets which rows of a pool.
//!
//! Every partition works in two steps: rows are *dealt* to clients, then each client's rows are *cut*,
//! stratified by class, into training and test rows. Where a test file exists, training rows alone are dealt, all
//! of them, and test rows follow them class by class: no row of a test file is ever trained on.
//!
//! With `partition.group` whole groups are dealt and cut; with `partition.time` a client's newest rows are cut off.
//!
//! No row of a group that is tested is trained on. What clients set aside of their training rows to choose settings by is
//! drawn from those rows one by one: there a group may be on both sides, which makes scores on it too good, and tests no
//! better than they are.

mod arrays;
mod cut;
mod deal;
mod file;
mod groups;
pub(crate) mod owned;
pub(crate) mod proportions;
pub(crate) mod unequal;

pub use arrays::{RowArrays, partition_rows};
use fedsi_random::Streams;

use crate::error::{DataError, quoted};
use crate::spec::{PartitionKind, PartitionSpec};

/// What a partition needs to know of a pool.
pub(crate) struct Table<'a> {
    /// Rows in all.
    pub(crate) rows: usize,
    /// The class of each row; `None` for regression.
    pub(crate) labels: Option<&'a [u32]>,
    /// Classes, 1 for regression.
    pub(crate) classes: usize,
    /// Whose rows they are, where the data says so.
    pub(crate) owners: Option<&'a Owners>,
    /// Where a test file fixes the split: how many rows, the first ones, are for training.
    pub(crate) train_rows: Option<usize>,
    /// Which rows are used; `None`: all.
    pub(crate) kept: Option<&'a [bool]>,
    /// For each row a number that rows share which stay together, as `partition.group` asks.
    pub(crate) groups: Option<&'a [u32]>,
    /// When each row is from, as `partition.time` asks.
    pub(crate) times: Option<&'a [f64]>,
}

impl Table<'_> {
    /// The class of a row; all rows of a regression are of one class.
    fn class(&self, row: u32) -> usize {
        self.labels.map_or(0, |labels| labels[row as usize] as usize)
    }

    /// Whether a row is used.
    fn keeps(&self, row: u32) -> bool {
        self.kept.is_none_or(|kept| kept[row as usize])
    }
}

/// Whose rows they are.
#[derive(Debug)]
pub(crate) struct Owners {
    /// The clients' names.
    pub(crate) names: Vec<String>,
    /// For each row, the number of its client in `names`.
    pub(crate) of_row: Vec<u32>,
}

/// The rows of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRows {
    /// Its own name, where the data has one.
    pub name: Option<String>,
    /// Rows it trains on, at least one.
    pub train: Vec<u32>,
    /// Rows it is tested on.
    pub test: Vec<u32>,
}

/// Divides the rows of a table among clients. Costs a shuffle of all rows.
pub(crate) fn partition(
    table: &Table<'_>,
    spec: &PartitionSpec,
    seed: u64,
) -> Result<Vec<ClientRows>, DataError> {
    check(table, spec)?;
    let streams = Streams::new(seed);
    let clients = match spec.kind {
        PartitionKind::Natural => owned::natural(table, spec, &streams)?,
        PartitionKind::File => file::assigned(table, spec, &streams)?,
        PartitionKind::Labels | PartitionKind::Iid | PartitionKind::Dirichlet | PartitionKind::Shards => {
            deal::dealt(table, spec, &streams)?
        }
    };
    refuse_empty(&clients)?;
    Ok(clients)
}

/// The training and test rows of a client that has a table to itself: those that [`PartitionKind::Natural`] gives the client
/// with this number of a table of all clients, where no group is at several of them. Costs a shuffle of all rows.
pub(crate) fn alone(
    table: &Table<'_>,
    spec: &PartitionSpec,
    seed: u64,
    client: u64,
    name: &str,
) -> Result<Vec<ClientRows>, DataError> {
    let spec = PartitionSpec { kind: PartitionKind::Natural, ..spec.clone() };
    check(table, &spec)?;
    let clients = owned::alone(table, client, name, &spec, &Streams::new(seed))?;
    refuse_empty(&clients)?;
    Ok(clients)
}

fn refuse_empty(clients: &[ClientRows]) -> Result<(), DataError> {
    for (number, client) in clients.iter().enumerate() {
        if client.train.is_empty() {
            return Err(DataError::EmptyClient {
                client: client.name.clone().unwrap_or_else(|| number.to_string()),
                advice: "give it rows to train on, lower partition.clients or partition.test_fraction, or \
                         leave it out",
            });
        }
    }
    Ok(())
}

/// Refuses settings that no table could satisfy.
fn check(table: &Table<'_>, spec: &PartitionSpec) -> Result<(), DataError> {
    let kind = spec.kind;
    let needs_classes =
        matches!(kind, PartitionKind::Labels | PartitionKind::Dirichlet | PartitionKind::Shards);
    if needs_classes && table.labels.is_none() {
        let expected = "iid, natural or file: a regression has no classes to divide by";
        return Err(DataError::setting("partition.kind", kind, expected));
    }
    if !(0.0..1.0).contains(&spec.test_fraction) {
        return Err(DataError::setting(
            "partition.test_fraction",
            spec.test_fraction,
            "a number from 0 up to, not including, 1",
        ));
    }
    check_unequal(spec)?;
    check_columns(table, spec)?;
    if matches!(kind, PartitionKind::Natural | PartitionKind::File) {
        return Ok(());
    }
    if spec.train > 0 && table.train_rows.is_some() {
        let expected = "0, all rows, where data.files.test says which rows are for testing";
        return Err(DataError::setting("partition.train", spec.train, expected));
    }
    if spec.clients == 0 {
        return Err(DataError::setting("partition.clients", 0, "at least 1"));
    }
    // Only `labels` is bound by the number of classes; elsewhere it is a factor of the client's size.
    let most = if kind == PartitionKind::Labels { table.classes } else { usize::from(u16::MAX) };
    if (kind == PartitionKind::Labels || spec.train > 0) && !(1..=most).contains(&spec.labels_per_client) {
        let expected = format!("1 to {most}");
        return Err(DataError::setting("partition.labels_per_client", spec.labels_per_client, expected));
    }
    if kind == PartitionKind::Shards && !(1..=table.rows.max(1)).contains(&spec.shards_per_client) {
        let expected = format!("1 to {}, the samples in the pool", table.rows);
        return Err(DataError::setting("partition.shards_per_client", spec.shards_per_client, expected));
    }
    proportions::check_concentration(spec)
}

/// Refuses unequal sizes where no shares are drawn from a Dirichlet distribution.
pub(crate) fn check_unequal(spec: &PartitionSpec) -> Result<(), DataError> {
    if spec.unequal && spec.kind != PartitionKind::Dirichlet {
        let expected =
            "false, or partition.kind = \"dirichlet\", which draws the clients' shares of each class";
        return Err(DataError::setting("partition.unequal", true, expected));
    }
    if spec.unequal && !spec.group.is_empty() {
        let expected = "false where partition.group keeps rows together";
        return Err(DataError::setting("partition.unequal", true, expected));
    }
    Ok(())
}

/// Refuses columns of data that has none.
pub(crate) fn refuse_columns(spec: &PartitionSpec) -> Result<(), DataError> {
    let keys = [("partition.group", &spec.group), ("partition.time", &spec.time)];
    match keys.into_iter().find(|(_, column)| !column.is_empty()) {
        None => Ok(()),
        Some((key, column)) => {
            let expected = "\"\": only tables (.csv, .parquet) have columns";
            Err(DataError::setting(key, quoted(column), expected))
        }
    }
}

/// Refuses `partition.group` and `partition.time` where they cannot be had.
fn check_columns(table: &Table<'_>, spec: &PartitionSpec) -> Result<(), DataError> {
    let dealt = !matches!(spec.kind, PartitionKind::Natural | PartitionKind::File);
    if table.groups.is_none() && table.times.is_none() {
        return refuse_columns(spec);
    }
    for (key, column) in [("partition.group", &spec.group), ("partition.time", &spec.time)] {
        if !column.is_empty() && table.train_rows.is_some() {
            let expected = "\"\", as data.files.test says which rows are for testing";
            return Err(DataError::setting(key, quoted(column), expected));
        }
    }
    if !spec.group.is_empty() && !spec.time.is_empty() {
        let expected = "\"\", as partition.group says which rows are for testing; use one of them";
        return Err(DataError::setting("partition.time", quoted(&spec.time), expected));
    }
    if !spec.group.is_empty() && dealt && spec.train > 0 {
        let expected = "0, all rows, where partition.group keeps rows together";
        return Err(DataError::setting("partition.train", spec.train, expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
