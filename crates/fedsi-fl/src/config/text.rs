//! A config as text for people and editors: TOML with comments, and a JSON schema. Both take their words from
//! the doc comments of [`Config`], so there is one place to write them.

use fedsi_data::Datasets;
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use super::{Config, ConfigError};

/// Column at which comments wrap.
const WIDTH: usize = 100;

/// The JSON schema of a config file: any of the keys, none of them required.
#[must_use]
pub fn schema() -> Json {
    let mut schema = full_schema();
    let sections = sections(&schema, &schema);
    for name in sections {
        if let Some(section) = schema["$defs"][&name].as_object_mut() {
            section.remove("required");
        }
    }
    if let Some(root) = schema.as_object_mut() {
        root.remove("required");
    }
    if let Some(dataset) = schema["$defs"]["DataSpec"]["properties"]["dataset"].as_object_mut() {
        dataset.remove("type");
        dataset.insert("anyOf".to_owned(), dataset_names());
    }
    schema
}

/// The built-in names, each with its description, and any other text: a program may add datasets.
fn dataset_names() -> Json {
    let datasets = Datasets::builtin();
    let known = datasets
        .iter()
        .map(|dataset| json!({ "const": dataset.name(), "description": dataset.description() }));
    known.chain([json!({ "type": "string" })]).collect()
}

fn full_schema() -> Json {
    schemars::schema_for!(Config).to_value()
}

/// The definitions of all sections below a schema.
fn sections(schema: &Json, root: &Json) -> Vec<String> {
    let properties = schema["properties"].as_object().into_iter().flat_map(|properties| properties.values());
    let names = properties.filter_map(|property| property["$ref"].as_str()?.strip_prefix("#/$defs/"));
    names.flat_map(|name| [vec![name.to_owned()], sections(&root["$defs"][name], root)].concat()).collect()
}

/// The config as complete, rerunnable TOML, every key under its explanation.
///
/// # Errors
/// A value that TOML cannot hold; none is, in a checked config.
pub fn commented(config: &Config) -> Result<String, ConfigError> {
    let table = Table::try_from(config)
        .map_err(|error| ConfigError::Type { key: "config".to_owned(), reason: error.to_string() })?;
    let schema = full_schema();
    let mut text = String::new();
    section(&mut text, &table, &schema, &schema, "");
    Ok(text)
}

/// Writes the plain keys of a table, then its sections.
fn section(text: &mut String, table: &Table, schema: &Json, root: &Json, prefix: &str) {
    for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
        comment(text, description(schema, root, key));
        text.push_str(&format!("{key} = {}\n", inline(value)));
    }
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        text.push('\n');
        comment(text, description(schema, root, key));
        text.push_str(&format!("[{name}]\n"));
        section(text, inner, property(schema, root, key), root, &name);
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pairs: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

/// The schema of a key, references followed.
fn property<'a>(schema: &'a Json, root: &'a Json, key: &str) -> &'a Json {
    follow(&schema["properties"][key], root)
}

fn follow<'a>(schema: &'a Json, root: &'a Json) -> &'a Json {
    let name = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

fn description<'a>(schema: &'a Json, root: &'a Json, key: &str) -> &'a str {
    let own = schema["properties"][key]["description"].as_str();
    own.or_else(|| property(schema, root, key)["description"].as_str()).unwrap_or_default()
}

fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        text.push_str(&line);
        text.push('\n');
    }
}
