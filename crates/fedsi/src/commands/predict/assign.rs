//! Which model predicts which row: one for all of them, or each row's own client's.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fedsi_data::{InputTable, display_name};
use fedsi_run::saved::{SavedModel, SavedRun};

use super::client::ChosenClient;
use crate::output::BadInput;

/// Names of clients, and rows, that a message lists.
const MOST_LISTED: usize = 3;

/// A model and the rows that it predicts.
#[derive(Debug)]
pub(crate) struct Group {
    /// The client, where it is one of the run's.
    pub(crate) client: Option<usize>,
    pub(crate) model: SavedModel,
    /// Places in the input, ascending.
    pub(crate) rows: Vec<usize>,
}

/// A model that is asked for by name, id or file.
pub(crate) enum Wanted {
    /// A client of the run.
    Client(ChosenClient, SavedModel),
    /// One that was fitted to a new client's data.
    New(SavedModel),
}

impl Wanted {
    /// What `--client` and `--model` mean; none where neither is given. A file in the place of a client is a model.
    pub(crate) fn find(
        run: &SavedRun,
        client: Option<&str>,
        model: Option<&Path>,
    ) -> anyhow::Result<Option<Self>> {
        if let Some(path) = model {
            return Ok(Some(Self::New(run.kept(path)?)));
        }
        let Some(wanted) = client else { return Ok(None) };
        let path = Path::new(wanted);
        if path.extension().is_some_and(|ending| ending == "safetensors")
            && path.is_file()
            && run.find(wanted).is_err()
        {
            return Ok(Some(Self::New(run.kept(path)?)));
        }
        let chosen = ChosenClient::find(run, wanted)?;
        let model = run.client(chosen.id)?;
        Ok(Some(Self::Client(chosen, model)))
    }

    pub(crate) const fn model(&self) -> &SavedModel {
        let (Self::Client(_, model) | Self::New(model)) = self;
        model
    }

    pub(crate) const fn chosen(&self) -> Option<&ChosenClient> {
        match self {
            Self::Client(chosen, _) => Some(chosen),
            Self::New(_) => None,
        }
    }

    /// All rows for this model.
    pub(crate) fn all(self, rows: usize) -> Vec<Group> {
        let client = self.chosen().map(|chosen| chosen.id);
        let (Self::Client(_, model) | Self::New(model)) = self;
        vec![Group { client, model, rows: (0..rows).collect() }]
    }
}

/// Each row to the client that its client column names, in the order of clients. `options` are the flags that choose a model
/// otherwise.
pub(crate) fn by_column(
    run: &SavedRun,
    input: &Path,
    table: Option<&InputTable>,
    options: &str,
) -> anyhow::Result<Vec<Group>> {
    let input = input.display();
    let Some(names) = table.and_then(|table| table.clients.as_ref()) else {
        let files = run.config().dataset().own_files(&run.config().data);
        let column = files.map(|files| files.client.as_str()).filter(|column| !column.is_empty());
        let why = match (table, column) {
            (Some(_), Some(column)) => format!("it has no client column \"{column}\""),
            _ => "it does not say whose its rows are".to_owned(),
        };
        let words = format!("{input}: {why}; {options}; the run has {}", run.known_clients());
        return Err(BadInput(words).into());
    };
    let named = run.clients().iter().filter_map(|client| Some((client.name.as_deref()?, client.id)));
    let ids: HashMap<&str, usize> = named.collect();
    let mut rows_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (row, name) in names.iter().enumerate() {
        match ids.get(name.as_str()) {
            Some(&client) => rows_of.entry(client).or_default().push(row),
            None => unknown.entry(name).or_default().push(row),
        }
    }
    if !unknown.is_empty() {
        return Err(BadInput(unknown_clients(run, &input.to_string(), &unknown, options)).into());
    }
    let group = |(client, rows)| Ok(Group { client: Some(client), model: run.client(client)?, rows });
    rows_of.into_iter().map(group).collect()
}

fn unknown_clients(
    run: &SavedRun,
    input: &str,
    unknown: &BTreeMap<&str, Vec<usize>>,
    options: &str,
) -> String {
    let one = |(name, rows): (&&str, &Vec<usize>)| {
        let count = rows.len();
        format!("`{}` ({count} {})", display_name(name), if count == 1 { "row" } else { "rows" })
    };
    let mut listed: Vec<String> = unknown.iter().take(MOST_LISTED).map(one).collect();
    if unknown.len() > MOST_LISTED {
        listed.push(format!("{} more", unknown.len() - MOST_LISTED));
    }
    let known = run.known_clients();
    format!(
        "{input}: rows of clients that the run does not have: {}; {options}; the run has {known}",
        listed.join(", ")
    )
}
