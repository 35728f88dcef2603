//! Partitions of rows that arrays describe.

use fedsi_data::{PartitionKind, PartitionSpec, RowArrays, partition_rows};
use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors::Kind;
use crate::interrupt::interruptible;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(partition, module)?)
}

type Rows<'py> = (Option<String>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// Divides rows among clients: a name, the training rows and the test rows of each.
#[pyfunction]
#[pyo3(signature = (kind, rows, *, labels, owners, groups, times, clients, labels_per_client, train, test,
    test_fraction, concentration, shards_per_client, seed))]
#[allow(clippy::too_many_arguments)] // the settings of a partition, by their names
fn partition<'py>(
    py: Python<'py>,
    kind: &str,
    rows: usize,
    labels: Option<PyReadonlyArray1<'py, i64>>,
    owners: Option<Vec<String>>,
    groups: Option<PyReadonlyArray1<'py, i64>>,
    times: Option<PyReadonlyArray1<'py, f64>>,
    clients: usize,
    labels_per_client: usize,
    train: usize,
    test: usize,
    test_fraction: f64,
    concentration: f64,
    shards_per_client: usize,
    seed: u64,
) -> PyResult<Vec<Rows<'py>>> {
    let kind = match kind {
        "labels" => PartitionKind::Labels,
        "iid" => PartitionKind::Iid,
        "dirichlet" => PartitionKind::Dirichlet,
        "shards" => PartitionKind::Shards,
        "natural" => PartitionKind::Natural,
        other => {
            let expected = "labels, iid, dirichlet, shards or natural";
            return Err(Kind::Input.error(format!("kind: found {other:?}, expected {expected}")));
        }
    };
    let spec = PartitionSpec {
        kind,
        labels_per_client,
        concentration,
        shards_per_client,
        test_fraction,
        ..PartitionSpec::labels(clients, train, test)
    };
    let labels = labels.map(|labels| numbers("labels", &labels)).transpose()?;
    let groups = groups.map(|groups| numbers("groups", &groups)).transpose()?;
    let times: Option<Vec<f64>> = times.map(|times| times.as_array().iter().copied().collect());
    let found = interruptible(py, move || {
        let arrays = RowArrays {
            rows,
            labels: labels.as_deref(),
            owners: owners.as_deref(),
            groups: groups.as_deref(),
            times: times.as_deref(),
        };
        partition_rows(&arrays, &spec, seed)
    })?
    .map_err(|error| Kind::Data.error(error))?;
    let array = |rows: Vec<u32>| rows.into_iter().map(i64::from).collect::<Vec<_>>().into_pyarray(py);
    Ok(found.into_iter().map(|client| (client.name, array(client.train), array(client.test))).collect())
}

/// Numbers from 0 on, as the package counts classes and groups.
fn numbers(name: &str, array: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u32>> {
    let number = |(row, &value): (usize, &i64)| {
        u32::try_from(value).map_err(|_| {
            Kind::Input.error(format!("{name}, row {row}: found {value}, expected 0 to {}", u32::MAX))
        })
    };
    array.as_array().iter().enumerate().map(number).collect()
}
