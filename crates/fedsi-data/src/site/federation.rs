//! The data of one site as a federation in which it alone has samples.

use super::agreement::{AgreedData, Agreement};
use super::arrays::OwnArrays;
use super::form::task_in_words;
use super::own_files::{divide, is_pixels, read_own, renumber};
use crate::error::{DataError, quoted};
use crate::federation::{Federation, Samples, Split, Targets, Task};
use crate::pool::{AgreedTable, Pool, PoolInputs, Pooled};
use crate::scale::Scaling;
use crate::spec::{FilesSpec, PartitionSpec};
use crate::table::{ColumnRange, DataSummary, TableEncoding};

/// What to do where a site's data is no longer what it described.
const AGAIN: &str =
    "give the site the federation's config and the files it described, or describe all data again";

/// The data of one site, opened as was agreed: a federation with all clients, of whom this one alone has samples. Rows are
/// numbered within the site's own.
pub struct SiteFederation {
    /// The names of all sites; none where the dataset itself names clients.
    sites: Option<Vec<String>>,
    clients: usize,
    client: usize,
    own: Box<dyn Federation>,
    /// The number of this client within `own`.
    own_client: usize,
}

impl SiteFederation {
    /// Opens the files of the site that is this client, which [`SiteDescription::of_files`](super::SiteDescription::of_files)
    /// described with the same settings and seed. Reads the files, and costs their memory and that of their inputs.
    ///
    /// # Errors
    /// Whatever describing them refuses; an agreement that has no such client, or is of other data: another column, class,
    /// setting, shape.
    pub fn open_files(
        spec: &FilesSpec,
        partition: &PartitionSpec,
        seed: u64,
        agreement: &Agreement,
        client: usize,
    ) -> Result<Self, DataError> {
        let site = site_name(agreement, client)?;
        let mut pool = read_own(spec, partition)?;
        let agreed = match (&pool.inputs, agreement.data()) {
            (PoolInputs::Array(_), AgreedData::Arrays { pixels }) => {
                check_arrays(&pool, agreement, *pixels, site)?;
                None
            }
            (PoolInputs::Table(_), AgreedData::Table { encoding, .. }) => {
                check_table(&mut pool, agreement, site)?;
                let target_scaling = agreement.target_scaling().cloned();
                Some(AgreedTable { encoding: encoding.clone(), target_scaling })
            }
            (PoolInputs::Array(_), _) => return Err(other_kind(agreement, site, "arrays in files")),
            (PoolInputs::Table(_), _) => return Err(other_kind(agreement, site, "a table")),
        };
        // Classes have the agreed numbers by now: rows are drawn class by class.
        let rows = divide(&pool, partition, seed, client, site)?;
        let own = Pooled::of_clients(pool, vec![rows], false, agreed)?;
        let found = (own.input_shape(), own.task());
        if found != (agreement.input_shape(), agreement.task()) {
            return Err(other_form(agreement, site, found.0, found.1));
        }
        Ok(Self::new(agreement, client, Box::new(own), 0))
    }

    /// The samples that the site's own code loaded: inputs row-major, and the targets of as many rows; for training, and for
    /// testing, where there may be none. Keeps them.
    ///
    /// # Errors
    /// An agreement that has no such client or is of other data; inputs and targets that do not fit each other, the agreed
    /// shape or the task; numbers that are not finite; no training row.
    pub fn of_arrays(
        agreement: &Agreement,
        client: usize,
        train: (Vec<f32>, Targets),
        test: (Vec<f32>, Targets),
    ) -> Result<Self, DataError> {
        let site = site_name(agreement, client)?;
        if !matches!(agreement.data(), AgreedData::Arrays { pixels: false }) {
            return Err(other_kind(agreement, site, "arrays that the site's own code loaded"));
        }
        let (shape, task) = (agreement.input_shape(), agreement.task());
        let own = OwnArrays::new(shape, task, agreement.class_names(), train, test);
        let own = own.map_err(|(found, expected)| {
            DataError::site(site, found, expected, "correct the arrays that the site's code gives")
        })?;
        Ok(Self::new(agreement, client, Box::new(own), 0))
    }

    /// One client of a dataset that every site opens by its name: `federation` is all of it.
    ///
    /// # Errors
    /// An agreement that has no such client or is of other data; another number of clients, shape, task or list of classes.
    pub fn of_named(
        agreement: &Agreement,
        client: usize,
        federation: Box<dyn Federation>,
    ) -> Result<Self, DataError> {
        let site = site_name(agreement, client)?;
        if !matches!(agreement.data(), AgreedData::Named { .. }) {
            return Err(other_kind(agreement, site, "a dataset known by its name"));
        }
        if federation.clients() != agreement.clients() {
            let found = format!("data of {} clients", federation.clients());
            let expected = format!("{}, one a site", agreement.clients());
            let advice = "set partition.clients to the number of sites";
            return Err(DataError::site(site, found, expected, advice));
        }
        let (shape, task) = (federation.input_shape(), federation.task());
        if (shape, task, federation.class_names())
            != (agreement.input_shape(), agreement.task(), agreement.class_names())
        {
            return Err(other_form(agreement, site, shape, task));
        }
        Ok(Self { sites: None, ..Self::new(agreement, client, federation, client) })
    }

    fn new(agreement: &Agreement, client: usize, own: Box<dyn Federation>, own_client: usize) -> Self {
        Self {
            sites: Some(agreement.sites().to_vec()),
            clients: agreement.clients(),
            client,
            own,
            own_client,
        }
    }

    /// The client that has samples: this site.
    #[must_use]
    pub const fn client(&self) -> usize {
        self.client
    }
}

/// The name of the site that is this client.
fn site_name(agreement: &Agreement, client: usize) -> Result<&str, DataError> {
    agreement.sites().get(client).map(String::as_str).ok_or_else(|| {
        let expected = format!("0 to {}, the sites that agreed", agreement.clients().saturating_sub(1));
        let advice = "give the site the number that its name has in the agreement";
        DataError::sites("the client number of this site", client.to_string(), expected, advice)
    })
}

fn other_kind(agreement: &Agreement, site: &str, found: &str) -> DataError {
    let expected = match agreement.data() {
        AgreedData::Named { dataset } => format!("the dataset {}, as agreed", quoted(dataset)),
        AgreedData::Arrays { pixels: true } => "images of bytes, as agreed".to_owned(),
        AgreedData::Arrays { pixels: false } => "arrays of numbers, as agreed".to_owned(),
        AgreedData::Table { .. } => "a table, as agreed".to_owned(),
    };
    DataError::site(site, found, expected, AGAIN)
}

fn other_form(agreement: &Agreement, site: &str, shape: &[usize], task: Task) -> DataError {
    let words = |shape: &[usize], task| format!("inputs of shape {shape:?} and {}", task_in_words(task));
    let expected = format!("{}, as agreed", words(agreement.input_shape(), agreement.task()));
    DataError::site(site, words(shape, task), expected, AGAIN)
}

fn check_arrays(pool: &Pool, agreement: &Agreement, pixels: bool, site: &str) -> Result<(), DataError> {
    if is_pixels(pool) != pixels {
        let found = if pixels { "arrays of numbers" } else { "images of bytes" };
        return Err(other_kind(agreement, site, found));
    }
    if pool.class_names.as_deref() != agreement.class_names() {
        let expected = "the agreed ones, in their order";
        return Err(DataError::site(site, "other names of classes", expected, AGAIN));
    }
    Ok(())
}

/// Checks a table's settings and targets, and gives its classes their agreed numbers.
fn check_table(pool: &mut Pool, agreement: &Agreement, site: &str) -> Result<(), DataError> {
    let (PoolInputs::Table(rows), AgreedData::Table { settings, targets, .. }) =
        (&pool.inputs, agreement.data())
    else {
        return Ok(());
    };
    if rows.settings != *settings {
        let found = "another data.files.standardize, strict or columns";
        return Err(DataError::site(site, found, "those that were agreed", AGAIN));
    }
    let found = rows.target_names();
    if found != *targets {
        let expected = format!("{}, as agreed", quoted(&targets.join(", ")));
        return Err(DataError::site(
            site,
            format!("the target {}", quoted(&found.join(", "))),
            expected,
            AGAIN,
        ));
    }
    if pool.task.kind() != agreement.task().kind() {
        return Err(other_form(agreement, site, agreement.input_shape(), pool.task));
    }
    match agreement.class_names() {
        Some(names) => renumber(pool, names, site),
        None => Ok(()),
    }
}

impl SiteFederation {
    fn is_own(&self, client: usize) -> bool {
        client == self.client
    }
}

impl Federation for SiteFederation {
    fn clients(&self) -> usize {
        self.clients
    }

    fn client_name(&self, client: usize) -> Option<&str> {
        match &self.sites {
            Some(sites) => sites.get(client).map(String::as_str),
            None => self.own.client_name(client),
        }
    }

    fn input_shape(&self) -> &[usize] {
        self.own.input_shape()
    }

    fn task(&self) -> Task {
        self.own.task()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.own.class_names()
    }

    fn count(&self, client: usize, split: Split) -> usize {
        if self.is_own(client) { self.own.count(self.own_client, split) } else { 0 }
    }

    fn samples(&self, client: usize, split: Split) -> Samples {
        if self.is_own(client) {
            return self.own.samples(self.own_client, split);
        }
        let targets = match self.task() {
            Task::Classification { .. } => Targets::Classes(Vec::new()),
            Task::Regression { .. } => Targets::Values(Vec::new()),
        };
        Samples { count: 0, inputs: Vec::new(), targets }
    }

    fn label_counts(&self, client: usize, split: Split) -> Vec<usize> {
        match self.task() {
            _ if self.is_own(client) => self.own.label_counts(self.own_client, split),
            Task::Classification { classes } => vec![0; classes],
            Task::Regression { .. } => Vec::new(),
        }
    }

    fn row_numbers(&self, client: usize, split: Split) -> Option<&[u32]> {
        let rows = self.own.row_numbers(self.own_client, split)?;
        Some(if self.is_own(client) { rows } else { &[] })
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        self.own.target_scaling()
    }

    fn input_scaling(&self) -> Option<&Scaling> {
        self.own.input_scaling()
    }

    fn pools_rows(&self) -> bool {
        self.own.pools_rows()
    }

    fn table_encoding(&self) -> Option<&TableEncoding> {
        self.own.table_encoding()
    }

    fn row_id(&self, row: u32) -> Option<String> {
        self.own.row_id(row)
    }

    fn row_cells(&self, row: u32) -> Option<Vec<String>> {
        self.own.row_cells(row)
    }

    fn row_targets(&self, row: u32) -> Option<Vec<String>> {
        self.own.row_targets(row)
    }

    fn column_ranges(&self, client: usize) -> Option<Vec<ColumnRange>> {
        if self.is_own(client) { self.own.column_ranges(self.own_client) } else { None }
    }

    fn data_summary(&self) -> Option<DataSummary> {
        self.own.data_summary()
    }

    fn input_columns(&self) -> Option<&[String]> {
        self.own.input_columns()
    }

    fn has_pixels(&self) -> bool {
        self.own.has_pixels()
    }
}
