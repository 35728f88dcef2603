//! `compare.toml`: what is compared in a folder, as `fedsi compare` takes it.

use fedsi_fl::Checked;
use fedsi_run::dataset_name;
use toml::{Table, Value};

use crate::folder::{MADE, SECTION};
use crate::spec::CompareSpec;

/// What `compare.toml` says: the settings as they were given, what is compared, and which seeds and data that makes.
pub(crate) fn marker(spec: &CompareSpec<'_>, base: &Checked, seeds: &[u64]) -> Table {
    let whole = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let texts = |all: &mut dyn Iterator<Item = String>| Value::Array(all.map(Value::String).collect());
    let mut section = Table::new();
    let mut set = |key: &str, value: Value| drop(section.insert(key.to_owned(), value));
    set("methods", texts(&mut spec.methods.iter().map(|method| method.name.to_owned())));
    set("seeds", whole(seeds.len()));
    if let Some(reference) = spec.reference {
        set("reference", Value::String(reference.to_owned()));
    }
    set("tune", Value::Boolean(spec.tune.is_some()));
    let tune = spec.tune.unwrap_or_default();
    let numbers =
        [("tune_rounds", tune.rounds), ("tune_finalists", tune.finalists), ("tune_seeds", tune.seeds)];
    for (key, number) in numbers {
        if let Some(number) = number {
            set(key, whole(number));
        }
    }
    if !spec.columns.is_empty() {
        set("columns", texts(&mut spec.columns.iter().cloned()));
    }
    if !spec.with.is_empty() {
        set("with", texts(&mut spec.with.iter().map(|one| one.absolute().to_string())));
    }
    let mut made = Table::new();
    let seeds = seeds.iter().map(|&seed| Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX)));
    made.insert("seeds".to_owned(), Value::Array(seeds.collect()));
    made.insert("dataset".to_owned(), Value::String(dataset_name(base)));
    made.insert("size".to_owned(), Value::String(base.data.size.to_string()));
    made.insert("rounds".to_owned(), whole(base.rounds));
    section.insert(MADE.to_owned(), Value::Table(made));
    let mut table = spec.given.clone();
    // What differs from method to method, and what changes no result, or only roundings.
    table.remove("method");
    table.remove("threads");
    table.remove("device");
    table.insert(SECTION.to_owned(), Value::Table(section));
    table
}
