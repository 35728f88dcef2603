//! Ranges of `[partition]`; its fields are fedsi-data's.

use fedsi_data::{PartitionKind, PartitionSpec};

use super::ConfigError;
use super::range::{number, whole};

/// Largest number of clients: what a machine can evaluate within days.
const MOST_CLIENTS: usize = 10_000_000;

/// Checks what can be checked without the data. Answers the number of clients, where the data does not decide it.
pub(super) fn check(partition: &PartitionSpec) -> Result<Option<usize>, ConfigError> {
    let fraction = "a share from 0 up to, not including, 1";
    let positive = "a finite number above 0";
    number("partition.test_fraction", partition.test_fraction, |x| (0.0..1.0).contains(&x), fraction)?;
    number("partition.concentration", partition.concentration, |x| x > 0.0, positive)?;
    whole("partition.labels_per_client", partition.labels_per_client, 1..=usize::MAX, "at least 1")?;
    whole("partition.shards_per_client", partition.shards_per_client, 1..=usize::MAX, "at least 1")?;
    if partition.unequal && partition.kind != PartitionKind::Dirichlet {
        let expected =
            "false, or partition.kind = \"dirichlet\", which draws the clients' shares of each class";
        return Err(ConfigError::value("partition.unequal", true, expected));
    }
    let one_client = partition.pooled.then_some(1);
    if matches!(partition.kind, PartitionKind::Natural | PartitionKind::File) {
        return Ok(one_client);
    }
    let clients = "at least 1 and at most 10000000 clients";
    whole("partition.clients", partition.clients, 1..=MOST_CLIENTS, clients)?;
    Ok(one_client.or(Some(partition.clients + usize::from(partition.pooled_client))))
}
