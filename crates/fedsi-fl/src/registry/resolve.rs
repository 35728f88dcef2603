//! Defaults, then the file, then flags: later layers win.

use fedsi_data::Size;
use toml::{Table, Value};

use super::Registry;
use crate::config::{
    Config, ConfigError, Overrides, Profile, default_participants, hint, keys, merge, nearest,
};

/// Lays the overrides, in order, over the defaults of the method and dataset they name.
///
/// # Errors
/// Unknown keys (with the nearest known one), values of the wrong type.
pub(super) fn resolve(registry: &Registry, overrides: &[Overrides]) -> Result<Config, ConfigError> {
    let mut wanted = Table::new();
    for layer in overrides {
        merge(&mut wanted, layer.table().clone());
    }
    let defaults = defaults_for(registry, &wanted)?;
    for layer in overrides {
        layer.refuse_renamed()?;
        refuse_unknown(layer.table(), &defaults, layer.origin())?;
    }
    let participants_are_given = lookup(&wanted, &["federation", "participants"]).is_some();
    let rate_is_given = lookup(&wanted, &["training", "learning_rate"]).is_some();
    let mut table = defaults;
    merge(&mut table, wanted);
    let mut config: Config =
        serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
            let key = error.path().to_string();
            let reason = plain_words(error.inner().message());
            // Values of several types say what they expect, not what they found.
            let path: Vec<&str> = key.split('.').collect();
            let reason = match lookup(&table, &path) {
                Some(found) if reason.starts_with("expected") => format!("found {found}, {reason}"),
                _ => reason,
            };
            ConfigError::Type { key, reason }
        })?;
    if !participants_are_given {
        let novel = config.federation.novel_clients.len();
        config.federation.participants = default_participants(&config.partition, novel);
    }
    // However it was written, files and folders have the method's own name.
    registry.method(&config.method)?.name.clone_into(&mut config.method);
    if !rate_is_given {
        // What suits the defaults need not suit what is wanted instead.
        registry.method(&config.method)?.suit_learning_rate(&mut config);
    }
    Ok(config)
}

/// The parser's words without Rust's names for numbers.
fn plain_words(message: &str) -> String {
    let message = message.trim().replace('\n', " ");
    if let Some(words) = unknown_name(&message) {
        return words;
    }
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

/// The parser's words on a name that is none of those it knows, with the nearest of them.
fn unknown_name(message: &str) -> Option<String> {
    let (name, known) = message.strip_prefix("unknown variant `")?.split_once("`, expected ")?;
    let names = known.split('`').skip(1).step_by(2);
    Some(format!("unknown name `{name}`{}, expected {known}", hint(name, names)))
}

/// The complete defaults for the method, dataset, size and number of clients that are wanted.
fn defaults_for(registry: &Registry, wanted: &Table) -> Result<Table, ConfigError> {
    let text = |path: &[&str]| lookup(wanted, path).and_then(Value::as_str);
    let method = text(&["method"]).unwrap_or(Config::DEFAULT_METHOD);
    let dataset = text(&["data", "dataset"]).unwrap_or(Config::DEFAULT_DATASET);
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
    let mut config = registry.profile_defaults(method, dataset, size, profile)?;
    // A column that names the client is a wish for natural clients, and their number decides the participants.
    if text(&["data", "files", "client"]).is_some_and(|column| !column.is_empty()) {
        config.partition.kind = fedsi_data::PartitionKind::Natural;
    }
    let mut partition = Table::try_from(&config.partition).map_err(|error| unwritable(&error))?;
    if let Some(Value::Table(wanted)) = wanted.get("partition") {
        merge(&mut partition, wanted.clone());
    }
    if let Ok(partition) = Value::Table(partition).try_into() {
        config.federation.participants = default_participants(&partition, 0);
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

fn is_value(table: &Table, key: &str) -> bool {
    lookup(table, &key.split('.').collect::<Vec<_>>()).is_some_and(|value| !value.is_table())
}

/// The known key most like a wrong one, by its last word, so that `batch_size` finds `training.batch_size`; of equals one
/// in the same section.
fn hint_for(key: &str, known: &[String]) -> String {
    let (section, word) = key.rsplit_once('.').unwrap_or(("", key));
    nearest(known.iter().map(|known| {
        let (its_section, its_word) = known.rsplit_once('.').unwrap_or(("", known));
        let likeness = strsim::jaro_winkler(word, its_word);
        (if section == its_section { likeness } else { 0.98 * likeness }, known.as_str())
    }))
}
