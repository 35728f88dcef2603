//! Defaults, then the file, then flags: later layers win.

use std::path::Path;

use fedsi_data::{DatasetName, Size};
use toml::{Table, Value};

use super::error::nearest;
use super::{Config, ConfigError, Profile, hint};

/// One layer of settings and where it came from.
#[derive(Clone, Debug)]
pub struct Overrides {
    origin: String,
    table: Table,
}

impl Overrides {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// A file that is missing, unreadable or no TOML.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::from_text(&path.display().to_string(), &text)
    }

    /// Parses TOML text that came from `origin`.
    ///
    /// # Errors
    /// Text that is no TOML, with line and column.
    pub fn from_text(origin: &str, text: &str) -> Result<Self, ConfigError> {
        let table = text.parse::<Table>().map_err(|error| ConfigError::Syntax {
            origin: origin.to_owned(),
            place: error.span().map(|span| place(text, span.start)).unwrap_or_default(),
            reason: error.message().replace('\n', " "),
        })?;
        Ok(Self { origin: origin.to_owned(), table })
    }

    /// Settings given on the command line: `(key, value)` with dotted keys.
    ///
    /// # Errors
    /// A key that runs through a value, as in `rounds.x`.
    pub fn from_assignments(assignments: Vec<(String, Value)>) -> Result<Self, ConfigError> {
        let mut table = Table::new();
        for (key, value) in assignments {
            insert(&mut table, &key, value)?;
        }
        Ok(Self { origin: "the command line".to_owned(), table })
    }
}

/// `KEY=VALUE`, the value in TOML; what is no TOML is a string, so that `partition.kind=iid` needs no quotes.
///
/// # Errors
/// Text without `=`, or with an empty key.
pub fn assignment(text: &str) -> Result<(String, Value), ConfigError> {
    let (key, value) =
        text.split_once('=').map(|(key, value)| (key.trim(), value.trim())).unwrap_or_default();
    if key.is_empty() {
        return Err(ConfigError::Assignment { text: text.to_owned() });
    }
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((key.to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// Lays the overrides, in order, over the defaults of the method and dataset they name.
///
/// # Errors
/// Unknown keys (with the nearest known one), values of the wrong type.
pub fn resolve(overrides: &[Overrides]) -> Result<Config, ConfigError> {
    let mut wanted = Table::new();
    for layer in overrides {
        merge(&mut wanted, layer.table.clone());
    }
    let defaults = defaults_for(&wanted)?;
    for layer in overrides {
        refuse_unknown(&layer.table, &defaults, &layer.origin)?;
    }
    let mut table = defaults;
    merge(&mut table, wanted);
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let key = error.path().to_string();
        let reason = plain_words(error.inner().message());
        ConfigError::Type { key, reason }
    })
}

/// The parser's words without Rust's names for numbers.
fn plain_words(message: &str) -> String {
    let message = message.trim().replace('\n', " ");
    let found =
        ["invalid value: integer `", "invalid type: integer `"].iter().find_map(|p| message.strip_prefix(p));
    match found.and_then(|rest| rest.split_once("`, expected ")) {
        Some((value, "usize" | "u64")) => format!("found {value}, expected a whole number, 0 or more"),
        _ => match message.split_once(", expected struct ") {
            Some((found, _)) => format!("{found}, expected a section with keys of its own"),
            None => message
                .replace("expected usize", "expected a whole number")
                .replace("expected f64", "expected a number"),
        },
    }
}

/// The complete defaults for the method, dataset, size and number of clients that are wanted.
fn defaults_for(wanted: &Table) -> Result<Table, ConfigError> {
    let text = |path: &[&str]| lookup(wanted, path).and_then(Value::as_str);
    let method = text(&["method"]).unwrap_or(Config::DEFAULT_METHOD);
    let dataset = text(&["data", "dataset"]).unwrap_or("digits");
    let dataset: DatasetName = dataset.parse().map_err(|_| ConfigError::Type {
        key: "data.dataset".to_owned(),
        reason: format!(
            "unknown dataset `{dataset}`{}; known: {}",
            hint(dataset, DatasetName::ALL.iter().map(|name| name.as_str())),
            DatasetName::ALL.map(DatasetName::as_str).join(", ")
        ),
    })?;
    let size = if text(&["data", "size"]) == Some("large") { Size::Large } else { Size::Small };
    let profile = text(&["profile"]).unwrap_or("calibrated");
    let profile = Profile::ALL.into_iter().find(|known| known.to_string() == profile).ok_or_else(|| {
        ConfigError::Type {
            key: "profile".to_owned(),
            reason: format!(
                "unknown profile `{profile}`; known: {}",
                Profile::ALL.map(|p| p.to_string()).join(", ")
            ),
        }
    })?;
    let mut config = Config::defaults(method, dataset, size).with_profile(profile);
    // A column that names the client is a wish for natural clients, and their number decides the participants.
    if text(&["data", "files", "client"]).is_some_and(|column| !column.is_empty()) {
        config.partition.kind = fedsi_data::PartitionKind::Natural;
    }
    let mut partition = Table::try_from(&config.partition).map_err(|error| unwritable(&error))?;
    if let Some(Value::Table(wanted)) = wanted.get("partition") {
        merge(&mut partition, wanted.clone());
    }
    if let Ok(partition) = Value::Table(partition).try_into() {
        config.federation.participants = super::default_participants(&partition);
    }
    Table::try_from(&config).map_err(|error| unwritable(&error))
}

fn unwritable(error: &toml::ser::Error) -> ConfigError {
    ConfigError::Type { key: "config".to_owned(), reason: error.to_string() }
}

fn lookup<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    tables.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?.get(*last)
}

/// `over` laid over `base`: tables are merged, everything else replaced.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn insert(table: &mut Table, key: &str, value: Value) -> Result<(), ConfigError> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((section, rest)) => {
            let section_value = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            match section_value {
                Value::Table(inner) => insert(inner, rest, value),
                _ => Err(ConfigError::Type { key: section.to_owned(), reason: "is no section".to_owned() }),
            }
        }
    }
}

/// Every table and key of `given` must be among the `defaults`.
fn refuse_unknown(given: &Table, defaults: &Table, origin: &str) -> Result<(), ConfigError> {
    let known = keys(defaults, "");
    let unknown = keys(given, "").into_iter().find(|key| {
        // What lies within a value that is no section is that value's own business.
        !known.contains(key)
            && !known.iter().any(|known| key.starts_with(&format!("{known}.")) && is_value(defaults, known))
    });
    match unknown {
        None => Ok(()),
        Some(key) => {
            Err(ConfigError::UnknownKey { hint: hint_for(&key, &known), key, origin: origin.to_owned() })
        }
    }
}

/// All keys of a table, sections first, each with the sections it lies in.
fn keys(table: &Table, prefix: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in table {
        let whole = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        all.push(whole.clone());
        if let Value::Table(inner) = value {
            all.extend(keys(inner, &whole));
        }
    }
    all
}

fn is_value(table: &Table, key: &str) -> bool {
    lookup(table, &key.split('.').collect::<Vec<_>>()).is_some_and(|value| !value.is_table())
}

/// The known key most like a wrong one, by its last word, so that `batch` finds `training.batch`; of equals one
/// in the same section.
fn hint_for(key: &str, known: &[String]) -> String {
    let (section, word) = key.rsplit_once('.').unwrap_or(("", key));
    nearest(known.iter().map(|known| {
        let (its_section, its_word) = known.rsplit_once('.').unwrap_or(("", known));
        let likeness = strsim::jaro_winkler(word, its_word);
        (if section == its_section { likeness } else { 0.98 * likeness }, known.as_str())
    }))
}

fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!(" (line {line}, column {column})")
}
