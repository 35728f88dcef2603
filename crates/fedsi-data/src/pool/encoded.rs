//! A table as inputs: summaries of every client's training rows, the encoding they agree on, and what people see of it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::PoolTargets;
use crate::error::{DataError, quoted};
use crate::partition::ClientRows;
use crate::scale::Scaling;
use crate::table::{
    ColumnEncoding, ColumnRange, DataSummary, Inspected, MergedSummaries, Outcome, SiteSummary,
    TableEncoding, TableRows, inspect, ranges,
};

/// A table whose encoding is known.
pub(crate) struct EncodedTable {
    rows: TableRows,
    pub(crate) encoding: TableEncoding,
    /// Where the encoding's columns stand in the table.
    places: Vec<usize>,
    pub(crate) summary: DataSummary,
}

/// The same with its inputs, rows x features, and the scale of regression targets.
pub(crate) struct EncodedRows {
    pub(crate) table: EncodedTable,
    pub(crate) inputs: Vec<f32>,
    pub(crate) target_scaling: Option<Scaling>,
}

/// What the sites of a table agreed on.
#[derive(Clone, Debug)]
pub(crate) struct AgreedTable {
    pub(crate) encoding: TableEncoding,
    pub(crate) target_scaling: Option<Scaling>,
}

impl AgreedTable {
    /// As the clients' training rows tell, client by client: the way of a real federation.
    pub(crate) fn of_clients(
        rows: &TableRows,
        clients: &[ClientRows],
        targets: &PoolTargets,
    ) -> Result<Self, DataError> {
        let mut merged = None;
        for client in clients {
            let summary = site_summary(rows, &client.train, targets);
            merged.get_or_insert_with(|| MergedSummaries::new(&summary)).add(&summary)?;
        }
        let (encoding, scaling) =
            merged.map(|all: MergedSummaries| (all.encoding(), all.target_scaling())).unwrap_or_default();
        let standardized = rows.settings.standardize && matches!(targets, PoolTargets::Values(_));
        Ok(Self { encoding, target_scaling: standardized.then_some(scaling) })
    }
}

impl EncodedTable {
    /// Encodes all rows as was agreed.
    pub(crate) fn encode(
        rows: TableRows,
        agreed: AgreedTable,
        clients: &[ClientRows],
        targets: &PoolTargets,
    ) -> Result<EncodedRows, DataError> {
        let AgreedTable { encoding, target_scaling } = agreed;
        let place: HashMap<&str, usize> =
            rows.inputs.iter().map(|&at| (rows.sheet.header[at].as_str(), at)).collect();
        let place_of = |column: &ColumnEncoding| {
            place.get(column.name.as_str()).copied().ok_or_else(|| lacks(&rows, &column.name))
        };
        let places = encoding.columns.iter().map(place_of).collect::<Result<Vec<usize>, _>>()?;
        if encoding.width() == 0 {
            let left_out: Vec<&str> = encoding.left_out.iter().map(|column| column.name.as_str()).collect();
            let found = format!("no column that can be an input: {} are left out", left_out.join(", "));
            let advice = "name the columns to use in data.files.columns";
            let path = rows.sheet.path(0);
            return Err(DataError::malformed(&path, "the inputs", found, "at least one", advice));
        }
        let inputs = encoded(&rows, &encoding, &places);
        let all = |part: fn(&ClientRows) -> &Vec<u32>| -> Vec<u32> {
            clients.iter().flat_map(|client| part(client).iter().copied()).collect()
        };
        let (train, test) = (all(|client| &client.train), all(|client| &client.test));
        let mut summary = inspect(&Inspected {
            sheet: &rows.sheet,
            encoding: &encoding,
            places: &places,
            train: &train,
            test: &test,
            outcome: match targets {
                PoolTargets::Classes(labels) => Outcome::Classes(labels),
                PoolTargets::Values(values) => Outcome::Values(values, outputs(values, &rows)),
            },
            roles: &rows.roles,
        });
        summary.file.clone_from(&rows.file);
        summary.warnings.splice(0..0, rows.notes.iter().cloned());
        let table = Self { rows, encoding, places, summary };
        Ok(EncodedRows { table, inputs, target_scaling })
    }

    /// How inputs were standardised, where they were.
    pub(crate) fn input_scaling(&self) -> Option<Scaling> {
        self.rows.settings.standardize.then(|| self.encoding.scaling())
    }

    /// A row's cell in the column of ids.
    pub(crate) fn id(&self, row: u32) -> Option<String> {
        let at = self.rows.id.filter(|_| (row as usize) < self.rows.sheet.rows())?;
        Some(self.rows.sheet.cell(row as usize, at).to_owned())
    }

    /// A row's cells in the order of the encoding.
    pub(crate) fn cells(&self, row: u32) -> Option<Vec<String>> {
        self.cells_at(row, &self.places)
    }

    /// A row's cells in the columns of the targets.
    pub(crate) fn targets(&self, row: u32) -> Option<Vec<String>> {
        self.cells_at(row, &self.rows.targets)
    }

    fn cells_at(&self, row: u32, places: &[usize]) -> Option<Vec<String>> {
        let sheet = &self.rows.sheet;
        let cells = || places.iter().map(|&at| sheet.value(row as usize, at).into_owned()).collect();
        ((row as usize) < sheet.rows()).then(cells)
    }

    /// What the columns hold in these rows.
    pub(crate) fn ranges(&self, rows: &[u32]) -> Vec<ColumnRange> {
        ranges(&self.encoding, &self.places, &self.rows.sheet, rows)
    }
}

fn lacks(rows: &TableRows, column: &str) -> DataError {
    let found = format!("the input columns {}", quoted(&rows.input_names().join(", ")));
    let expected = format!("{} among them, as agreed", quoted(column));
    let advice = "add the column, or describe the data of all sites again";
    DataError::malformed(&rows.sheet.path(0), "line 1", found, expected, advice)
}

fn outputs(values: &[f64], rows: &TableRows) -> usize {
    values.len().checked_div(rows.sheet.rows()).unwrap_or(0)
}

/// What a client tells of its training rows.
pub(crate) fn site_summary(rows: &TableRows, train: &[u32], targets: &PoolTargets) -> SiteSummary {
    let cell = |row: usize, column: usize| -> Cow<'_, str> {
        rows.sheet.value(train[row] as usize, rows.inputs[column])
    };
    let targets = match targets {
        PoolTargets::Classes(_) => Vec::new(),
        PoolTargets::Values(values) => {
            let width = outputs(values, rows);
            let value = |row: &u32, output: usize| values[*row as usize * width + output];
            (0..width).map(|output| train.iter().map(|row| value(row, output)).collect()).collect()
        }
    };
    SiteSummary::of(rows.settings, &rows.input_names(), train.len(), cell, targets)
}

/// All rows as inputs; those that are left out as zeros, which nobody reads.
fn encoded(rows: &TableRows, encoding: &TableEncoding, places: &[usize]) -> Vec<f32> {
    let width = encoding.width();
    let mut inputs = Vec::with_capacity(rows.sheet.rows() * width);
    for row in 0..rows.sheet.rows() {
        if rows.kept[row] {
            let cells: Vec<Cow<'_, str>> = places.iter().map(|&at| rows.sheet.value(row, at)).collect();
            encoding.encode(&cells, &mut inputs);
        } else {
            inputs.resize(inputs.len() + width, 0.0);
        }
    }
    inputs
}
