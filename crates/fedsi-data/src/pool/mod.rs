//! All samples of a dataset in memory, and the federation that divides them.

mod encoded;

use crate::error::DataError;
use crate::federation::{Federation, Samples, Split, Targets, Task};
use crate::partition::{self, ClientRows, Owners, Table};
use crate::scale::{self, Scaling, byte_to_unit};
use crate::spec::PartitionSpec;
use crate::table::{ColumnRange, DataSummary, TableEncoding, TableRows};
use encoded::EncodedTable;
pub(crate) use encoded::{AgreedTable, site_summary};

/// The inputs of a pool, row-major.
#[derive(Debug)]
pub(crate) enum Inputs<Float> {
    /// Images: kept as bytes, a quarter of the memory, and scaled to [-1, 1] when materialised.
    Bytes(Vec<u8>),
    /// Everything else.
    Floats(Vec<Float>),
}

/// The inputs of a pool before it is known who trains on which rows.
#[derive(Debug)]
pub(crate) enum PoolInputs {
    /// Numbers, row-major.
    Array(Inputs<f64>),
    /// Rows of a table.
    Table(Box<TableRows>),
}

/// The targets of a pool.
#[derive(Debug)]
pub(crate) enum PoolTargets {
    /// The class of each row.
    Classes(Vec<u32>),
    /// Rows x outputs.
    Values(Vec<f64>),
}

/// For each row the number of its group, and its time, where the partition asks for them.
type GroupsAndTimes = (Option<Vec<u32>>, Option<Vec<f64>>);

/// The samples of a dataset, checked: `rows` of each, classes in range, numbers finite. Those of tables are as precise
/// as the file has them, because what standardisation takes away may be most of their digits.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) rows: usize,
    /// The shape of an input; of a table what was asked for, `[]` for as many as its columns become.
    pub(crate) shape: Vec<usize>,
    pub(crate) inputs: PoolInputs,
    pub(crate) targets: PoolTargets,
    pub(crate) task: Task,
    pub(crate) class_names: Option<Vec<String>>,
    pub(crate) owners: Option<Owners>,
    /// Where a test file fixes the split: how many rows, the first ones, are for training.
    pub(crate) train_rows: Option<usize>,
}

impl Pool {
    /// The rows of a pool that is one client's own: see [`partition::alone`].
    pub(crate) fn rows_of(
        &self,
        client: u64,
        name: &str,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<ClientRows, DataError> {
        let (groups, times) = self.groups_and_times()?;
        let table = self.table(groups.as_deref(), times.as_deref());
        let clients = partition::alone(&table, partition, seed, client, name)?;
        Ok(clients.into_iter().next().unwrap_or_default())
    }

    fn groups_and_times(&self) -> Result<GroupsAndTimes, DataError> {
        match &self.inputs {
            PoolInputs::Array(_) => Ok((None, None)),
            PoolInputs::Table(rows) => Ok((rows.groups(), rows.times()?)),
        }
    }

    fn table<'a>(&'a self, groups: Option<&'a [u32]>, times: Option<&'a [f64]>) -> Table<'a> {
        let (labels, classes) = match (&self.targets, self.task) {
            (PoolTargets::Classes(labels), Task::Classification { classes }) => {
                (Some(labels.as_slice()), classes)
            }
            _ => (None, 1),
        };
        let table = match &self.inputs {
            PoolInputs::Table(table) => Some(table),
            PoolInputs::Array(_) => None,
        };
        Table {
            rows: self.rows,
            labels,
            classes,
            owners: self.owners.as_ref(),
            train_rows: self.train_rows,
            kept: table.map(|table| table.kept.as_slice()),
            groups,
            times,
        }
    }
}

/// The shape of one input as it was asked for, or as the file has it, where both agree on the number of features.
pub(crate) fn checked_shape(asked: &[usize], natural: &[usize]) -> Result<Vec<usize>, DataError> {
    let product =
        |shape: &[usize]| shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    let features = product(natural).unwrap_or(0);
    let shape = if asked.is_empty() { natural } else { asked };
    if product(shape) != Some(features) || ![1, 3].contains(&shape.len()) {
        let expected = format!("[], [{features}], or [channels, height, width] with this product");
        return Err(DataError::setting("data.files.shape", format!("{asked:?}"), expected));
    }
    Ok(shape.to_vec())
}

/// A pool divided among clients, as networks want it. Holds all samples and the row numbers of each client.
pub(crate) struct Pooled {
    rows: usize,
    shape: Vec<usize>,
    inputs: Inputs<f32>,
    targets: Targets,
    task: Task,
    class_names: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    table: Option<EncodedTable>,
    clients: Vec<ClientRows>,
    input_scaling: Option<Scaling>,
    target_scaling: Option<Scaling>,
}

impl Pooled {
    /// Divides the pool; with `standardize`, brings features (unless bytes) and regression targets to mean 0
    /// and standard deviation 1 over the training rows of all clients.
    pub(crate) fn new(
        pool: Pool,
        partition: &PartitionSpec,
        standardize: bool,
        seed: u64,
    ) -> Result<Self, DataError> {
        let (groups, times) = pool.groups_and_times()?;
        let table = pool.table(groups.as_deref(), times.as_deref());
        let clients = partition::partition(&table, partition, seed)?;
        Self::of_clients(pool, clients, standardize, None)
    }

    /// The same for known clients; where a table's encoding was agreed on before, with that one.
    pub(crate) fn of_clients(
        pool: Pool,
        clients: Vec<ClientRows>,
        standardize: bool,
        agreed: Option<AgreedTable>,
    ) -> Result<Self, DataError> {
        let train: Vec<u32> = clients.iter().flat_map(|client| client.train.iter().copied()).collect();
        let scaled = |values: &[f64]| {
            let width = values.len().checked_div(pool.rows).unwrap_or(0);
            let scaling = standardize.then(|| scale::statistics(values, width, &train));
            (scale::to_singles(scaling.as_ref(), values), scaling)
        };
        let mut shape = pool.shape;
        let (mut table, mut agreed_scaling) = (None, None);
        let (inputs, input_scaling) = match pool.inputs {
            PoolInputs::Array(Inputs::Bytes(bytes)) => (Inputs::Bytes(bytes), None),
            PoolInputs::Array(Inputs::Floats(values)) => {
                let (values, scaling) = scaled(&values);
                (Inputs::Floats(values), scaling)
            }
            PoolInputs::Table(rows) => {
                let agreed = match agreed {
                    Some(agreed) => agreed,
                    None => AgreedTable::of_clients(&rows, &clients, &pool.targets)?,
                };
                let encoded = EncodedTable::encode(*rows, agreed, &clients, &pool.targets)?;
                shape = checked_shape(&shape, &[encoded.table.encoding.width()])?;
                let scaling = encoded.table.input_scaling();
                (table, agreed_scaling) = (Some(encoded.table), encoded.target_scaling);
                (Inputs::Floats(encoded.inputs), scaling)
            }
        };
        let (targets, target_scaling) = match pool.targets {
            PoolTargets::Classes(labels) => (Targets::Classes(labels), None),
            PoolTargets::Values(values) if table.is_some() => {
                (Targets::Values(scale::to_singles(agreed_scaling.as_ref(), &values)), agreed_scaling)
            }
            PoolTargets::Values(values) => {
                let (values, scaling) = scaled(&values);
                (Targets::Values(values), scaling)
            }
        };
        let columns = table.as_ref().map(|table| table.encoding.feature_names());
        let Pool { rows, task, class_names, .. } = pool;
        Ok(Self {
            rows,
            shape,
            inputs,
            targets,
            task,
            class_names,
            columns,
            table,
            clients,
            input_scaling,
            target_scaling,
        })
    }

    fn rows(&self, client: usize, split: Split) -> &[u32] {
        self.clients.get(client).map_or(&[], |rows| match split {
            Split::Train => &rows.train,
            Split::Test => &rows.test,
        })
    }
}

impl Federation for Pooled {
    fn clients(&self) -> usize {
        self.clients.len()
    }

    fn client_name(&self, client: usize) -> Option<&str> {
        self.clients.get(client)?.name.as_deref()
    }

    fn input_shape(&self) -> &[usize] {
        &self.shape
    }

    fn task(&self) -> Task {
        self.task
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn count(&self, client: usize, split: Split) -> usize {
        self.rows(client, split).len()
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        let rows = self.rows(client, split);
        let width: usize = self.shape.iter().product();
        let mut inputs = Vec::with_capacity(rows.len() * width);
        for &row in rows {
            let range = row as usize * width..(row as usize + 1) * width;
            match &self.inputs {
                Inputs::Bytes(bytes) => inputs.extend(bytes[range].iter().copied().map(byte_to_unit)),
                Inputs::Floats(values) => inputs.extend_from_slice(&values[range]),
            }
        }
        let targets = match &self.targets {
            Targets::Classes(labels) => {
                Targets::Classes(rows.iter().map(|&row| labels[row as usize]).collect())
            }
            Targets::Values(values) => {
                let outputs = values.len().checked_div(self.rows).unwrap_or(0);
                let value = |row: &u32| &values[*row as usize * outputs..(*row as usize + 1) * outputs];
                Targets::Values(rows.iter().flat_map(value).copied().collect())
            }
        };
        Samples { count: rows.len(), inputs, targets }
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        let (Targets::Classes(labels), Task::Classification { classes }) = (&self.targets, self.task) else {
            return Vec::new();
        };
        let mut counts = vec![0; classes];
        for &row in self.rows(client, split) {
            counts[labels[row as usize] as usize] += 1;
        }
        counts
    }

    fn row_numbers(&self, client: usize, split: Split) -> Option<&[u32]> {
        Some(self.rows(client, split))
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        self.target_scaling.as_ref()
    }

    fn input_scaling(&self) -> Option<&Scaling> {
        self.input_scaling.as_ref()
    }

    fn input_columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    fn table_encoding(&self) -> Option<&TableEncoding> {
        self.table.as_ref().map(|table| &table.encoding)
    }

    fn row_id(&self, row: u32) -> Option<String> {
        self.table.as_ref()?.id(row)
    }

    fn row_cells(&self, row: u32) -> Option<Vec<String>> {
        self.table.as_ref()?.cells(row)
    }

    fn row_targets(&self, row: u32) -> Option<Vec<String>> {
        self.table.as_ref()?.targets(row)
    }

    fn column_ranges(&self, client: usize) -> Option<Vec<ColumnRange>> {
        let table = self.table.as_ref()?;
        (client < self.clients.len()).then(|| table.ranges(self.rows(client, Split::Train)))
    }

    fn data_summary(&self) -> Option<DataSummary> {
        self.table.as_ref().map(|table| table.summary.clone())
    }

    fn has_pixels(&self) -> bool {
        matches!(self.inputs, Inputs::Bytes(_))
    }
}
