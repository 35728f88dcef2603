//! Layers of settings: a file, a saved run's config, single assignments. [`Registry::resolve`](crate::Registry::resolve)
//! lays them over the defaults; later layers win.

use std::path::Path;

use toml::{Table, Value};

use super::{ConfigError, renamed};

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
    /// A file that is missing, unreadable or not TOML.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        Self::from_text(&path.display().to_string(), &read(path)?)
    }

    /// Parses TOML text that came from `origin`.
    ///
    /// # Errors
    /// Text that is not TOML, with line and column.
    pub fn from_text(origin: &str, text: &str) -> Result<Self, ConfigError> {
        let table = text.parse::<Table>().map_err(|error| ConfigError::Syntax {
            origin: origin.to_owned(),
            place: error.span().map(|span| place(text, span.start)).unwrap_or_default(),
            reason: error
                .span()
                .and_then(|span| unquoted(text, span.start))
                .unwrap_or_else(|| error.message().replace('\n', " ")),
        })?;
        Ok(Self { origin: origin.to_owned(), table })
    }

    /// Reads the `config.toml` of a run's folder. Keys of a run that fedsi 0.1 wrote are translated to their present
    /// names, and settings that an earlier version had no key for are as they were then.
    ///
    /// # Errors
    /// A file that is missing, unreadable or not TOML.
    pub fn from_saved(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        let Self { origin, table } = Self::from_text(&path.display().to_string(), &text)?;
        let table = if renamed::is_from_0_1(&text) { renamed::translate(table) } else { table };
        Ok(Self { origin, table: renamed::complete(table) })
    }

    /// Single settings from `origin` ("the command line"): `(key, value)` with dotted keys.
    ///
    /// # Errors
    /// A key that runs through a value, as in `rounds.x`.
    pub fn from_assignments(origin: &str, assignments: Vec<(String, Value)>) -> Result<Self, ConfigError> {
        let mut table = Table::new();
        for (key, value) in assignments {
            insert(&mut table, &key, value)?;
        }
        Ok(Self { origin: origin.to_owned(), table })
    }

    /// Takes a section out that is not a run's: what one command alone reads.
    ///
    /// # Errors
    /// A value of that name that is no section.
    pub fn take_section(&mut self, name: &str) -> Result<Option<Table>, ConfigError> {
        match self.table.remove(name) {
            None => Ok(None),
            Some(Value::Table(section)) => Ok(Some(section)),
            Some(_) => Err(ConfigError::Type {
                key: name.to_owned(),
                reason: format!("expected a section [{name}] with keys of its own"),
            }),
        }
    }

    /// Layers laid over each other, in order: what was given, without any default.
    #[must_use]
    pub fn merged(layers: &[Self]) -> Table {
        let mut all = Table::new();
        layers.iter().for_each(|layer| merge(&mut all, layer.table.clone()));
        all
    }

    /// Where the settings came from.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The settings.
    pub(crate) const fn table(&self) -> &Table {
        &self.table
    }

    /// Refuses the first key that has another name now.
    pub(crate) fn refuse_renamed(&self) -> Result<(), ConfigError> {
        let found = keys(&self.table, "").into_iter().find_map(|key| Some((renamed::new_name(&key)?, key)));
        match found {
            None => Ok(()),
            Some((new, key)) => Err(ConfigError::RenamedKey { key, origin: self.origin.clone(), new }),
        }
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })
}

/// `KEY=VALUE`, the value in TOML; what is not TOML is a string, so that `partition.kind=iid` needs no quotes.
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

/// `over` laid over `base`: tables are merged, everything else replaced.
pub(crate) fn merge(base: &mut Table, over: Table) {
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
                _ => Err(ConfigError::Type {
                    key: section.to_owned(),
                    reason: "is a value, not a section".to_owned(),
                }),
            }
        }
    }
}

/// All keys of a table, sections first, each with the sections it lies in.
pub(crate) fn keys(table: &Table, prefix: &str) -> Vec<String> {
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

/// What to say of a line whose value is a text without quotes: the parser's own words are about numbers and booleans.
fn unquoted(text: &str, offset: usize) -> Option<String> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..)?.lines().next()?;
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.split('#').next()?.trim());
    let begins = value.chars().next()?;
    let is_text = begins.is_alphabetic() || "/.~".contains(begins);
    let is_plain = !value.contains(['"', '\'']) && !["true", "false", "inf", "nan"].contains(&value);
    (is_text && is_plain).then(|| format!("texts need quotes: {key} = \"{value}\""))
}

fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!(" (line {line}, column {column})")
}
