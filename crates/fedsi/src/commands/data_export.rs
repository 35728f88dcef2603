//! `fedsi data export`: the rows of every client for other tools.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use csv::Writer;
use fedsi_data::{Federation, Samples, Split, Targets, Task, csv_text};
use fedsi_fl::Checked;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

use crate::args::ExportArguments;
use crate::output::{BadInput, print, print_json};

pub(super) fn export(arguments: &ExportArguments, quiet: bool, as_json: bool) -> anyhow::Result<()> {
    let (out, config) = (arguments.out.as_path(), arguments.settings.checked()?);
    let is_empty = fs::read_dir(out).map(|mut entries| entries.next().is_none());
    if out.exists() && !is_empty.unwrap_or(false) {
        let reason = "it is no empty folder; name a new one";
        return Err(BadInput(format!("--out {}: {reason}", out.display())).into());
    }
    let federation = config.open_data()?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut files = Vec::new();
    for (split, name) in [(Split::Train, "train"), (Split::Test, "test")] {
        let rows = Exported::of(federation.as_ref(), split);
        let file = format!("{name}.safetensors");
        write(&out.join(&file), &rows.arrays(federation.as_ref())?)?;
        files.push(json!({ "file": file, "rows": rows.clients.len() }));
        if federation.table_encoding().is_some() {
            let file = format!("{name}.csv");
            write(&out.join(&file), &rows.table(federation.as_ref())?)?;
            files.push(json!({ "file": file, "rows": rows.clients.len() }));
        }
    }
    write(&out.join("README.txt"), readme(&config, federation.as_ref()).as_bytes())?;
    if as_json {
        return print_json(&json!({ "folder": out, "files": files }));
    }
    let rows: usize = (0..federation.clients()).map(|client| federation.count(client, Split::Test)).sum();
    let folder = out.display();
    if quiet {
        return Ok(());
    }
    print(&format!(
        "{folder}: rows of {} clients, {rows} of them test rows; see README.txt\n",
        federation.clients()
    ))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The samples of all clients in their order.
struct Exported {
    clients: Vec<usize>,
    rows: Vec<Option<u32>>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
    /// Rows x outputs, in the data's own units.
    values: Vec<f64>,
}

impl Exported {
    fn of(federation: &dyn Federation, split: Split) -> Self {
        let mut all = Self {
            clients: Vec::new(),
            rows: Vec::new(),
            inputs: Vec::new(),
            labels: Vec::new(),
            values: Vec::new(),
        };
        for client in 0..federation.clients() {
            let Samples { count, inputs, targets } = federation.samples(client, split);
            all.clients.extend(std::iter::repeat_n(client, count));
            match federation.row_numbers(client, split) {
                Some(rows) => all.rows.extend(rows.iter().copied().map(Some)),
                None => all.rows.extend(std::iter::repeat_n(None, count)),
            }
            all.inputs.extend(inputs);
            match targets {
                Targets::Classes(labels) => all.labels.extend(labels),
                Targets::Values(values) => {
                    let outputs = outputs(federation).max(1);
                    let restore = |(at, value): (usize, f32)| match federation.target_scaling() {
                        Some(scaling) => scaling.restore(at % outputs, f64::from(value)),
                        None => f64::from(value),
                    };
                    all.values.extend(values.into_iter().enumerate().map(restore));
                }
            }
        }
        all
    }

    /// `inputs`, `labels` or `targets`, `client` and, where samples are rows of something, `row`.
    fn arrays(&self, federation: &dyn Federation) -> anyhow::Result<Vec<u8>> {
        let count = self.clients.len();
        let mut arrays: Vec<(&str, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
        let whole =
            |values: &mut dyn Iterator<Item = i64>| values.flat_map(i64::to_le_bytes).collect::<Vec<u8>>();
        let mut shape = vec![count];
        shape.extend(federation.input_shape());
        let inputs = self.inputs.iter().flat_map(|value| value.to_le_bytes()).collect();
        arrays.push(("inputs", Dtype::F32, shape, inputs));
        if matches!(federation.task(), Task::Classification { .. }) {
            let labels = whole(&mut self.labels.iter().map(|&label| i64::from(label)));
            arrays.push(("labels", Dtype::I64, vec![count], labels));
        } else {
            let values = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
            arrays.push(("targets", Dtype::F64, vec![count, outputs(federation)], values));
        }
        let clients = whole(&mut self.clients.iter().map(|&client| client as i64));
        arrays.push(("client", Dtype::I64, vec![count], clients));
        let rows: Option<Vec<u32>> = self.rows.iter().copied().collect();
        if let Some(rows) = rows {
            arrays.push(("row", Dtype::I64, vec![count], whole(&mut rows.into_iter().map(i64::from))));
        }
        let views = arrays.iter().map(|(name, kind, shape, data)| {
            Ok((*name, TensorView::new(*kind, shape.clone(), data).context("an array of another size")?))
        });
        Ok(safetensors::serialize(views.collect::<anyhow::Result<Vec<_>>>()?, None)?)
    }

    /// The rows of a table: client, row, id where there is one, the target, and the columns that are inputs as the table has
    /// them.
    fn table(&self, federation: &dyn Federation) -> anyhow::Result<Vec<u8>> {
        let mut writer = Writer::from_writer(Vec::new());
        let columns =
            federation.table_encoding().map(fedsi_data::TableEncoding::column_names).unwrap_or_default();
        let targets = target_names(federation);
        let has_ids = self.rows.iter().flatten().any(|&row| federation.row_id(row).is_some());
        let mut names: Vec<String> = Vec::new();
        for own in ["client", "row", "id"].into_iter().filter(|&own| own != "id" || has_ids) {
            let taken = columns.iter().chain(&targets).any(|column| column == own);
            names.push(if taken { format!("fedsi_{own}") } else { own.to_owned() });
        }
        let header = names.iter().chain(&targets).chain(&columns);
        writer.write_record(header.map(|name| csv_text(name).into_owned()))?;
        for (&client, row) in self.clients.iter().zip(&self.rows) {
            let row = row.unwrap_or_default();
            let mut cells = vec![
                federation.client_name(client).map_or_else(|| client.to_string(), str::to_owned),
                row.to_string(),
            ];
            if has_ids {
                cells.push(federation.row_id(row).unwrap_or_default());
            }
            cells.extend(federation.row_targets(row).unwrap_or_default());
            cells.extend(federation.row_cells(row).unwrap_or_default());
            writer.write_record(cells.iter().map(|cell| csv_text(cell).into_owned()))?;
        }
        Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?)
    }
}

fn outputs(federation: &dyn Federation) -> usize {
    match federation.task() {
        Task::Classification { .. } => 1,
        Task::Regression { outputs } => outputs,
    }
}

/// What the table calls its targets.
fn target_names(federation: &dyn Federation) -> Vec<String> {
    let roles = federation.data_summary().map(|summary| summary.roles).unwrap_or_default();
    roles.into_iter().filter(|(role, _)| role == "target").map(|(_, name)| name).collect()
}

/// What is checked of a CSV file with predictions.
const CHECKED: &str = "`client`, `row`, `id` and the target, under the names that test.csv has for them (the target also as \
                       `label` or `target`), are checked against the test rows where they are there.";

fn readme(config: &Checked, federation: &dyn Federation) -> String {
    let (predicted, columns, arrays) = match federation.task() {
        Task::Classification { classes } => {
            let names: Vec<String> = match federation.class_names() {
                Some(names) => names.to_vec(),
                None => (0..classes).map(|class| class.to_string()).collect(),
            };
            (
                format!("one of {classes} classes: {}", names.join(", ")),
                format!(
                    "a CSV file with a column for each class, under its name, with its probability. {CHECKED} Columns that \
                     test.csv has may stay and are not read; any other column is refused;"
                ),
                format!("`probabilities` of shape [rows, {classes}], classes in the order above"),
            )
        }
        Task::Regression { outputs } => (
            format!("{outputs} number(s): {}", target_names(federation).join(", ")),
            if outputs == 1 {
                format!(
                    "a CSV file with the columns `mean` and `variance` (or `std`), in the data's own units. {CHECKED} Other \
                     columns are not read;"
                )
            } else {
                "no CSV file, which has room for one target only;".to_owned()
            },
            format!("`mean` and `variance` of shape [rows, {outputs}], in the data's own units"),
        ),
    };
    let table = if federation.table_encoding().is_some() {
        "train.csv, test.csv: the same rows as the table has them: client, row (counted from 0 over the training file, then \
         the test file), id, target, inputs.\n"
    } else {
        ""
    };
    format!(
        "Rows of {dataset}, seed {seed}, divided as fedsi divides them.\n\n\
         train.safetensors, test.safetensors: `inputs` as networks get them, `labels` or `targets`, `client` (counted \
         from 0) and `row`.\n{table}\n\
         Train on the training rows, for all clients together or for each by itself, and predict the test rows: {predicted}.\n\
         Predictions have a row for each test row, in the same order (clients in the order of their numbers):\n\
         - {columns}\n\
         - {or}a safetensors or NPZ file with {arrays}; `client`, `row` and `labels` or `targets` are checked where it has \
         them.\n\
         Then: fedsi compare --with NAME=FILE, with the settings of this export, its seed among them.\n",
        dataset = config.dataset().label(&config.data),
        seed = config.seed,
        or = if outputs(federation) == 1 { "or " } else { "" },
    )
}
