//! `config.toml` of an experiment: the settings of every column and row on top of the defaults, by key.

use toml::{Table, Value};

use crate::assignment::Assignment;
use crate::plan::{FIRST_SEED, Plan};

/// The file's text.
pub(crate) fn config_text(plan: &Plan) -> String {
    let mut all = Table::new();
    all.insert("experiment".to_owned(), Value::String(plan.experiment.id().to_owned()));
    all.insert("partition".to_owned(), Value::String(plan.partition.id().to_owned()));
    let (mut settings, mut rows) = (Table::new(), Table::new());
    for setting in &plan.settings {
        let mut own = table(setting.values(FIRST_SEED));
        own.insert("seeds".to_owned(), Value::Integer(i64::try_from(setting.seeds).unwrap_or(i64::MAX)));
        settings.insert(setting.id.clone(), Value::Table(own));
    }
    for entry in &plan.entries {
        let mut own = Table::new();
        own.insert("method".to_owned(), Value::String(entry.method.to_owned()));
        for setting in &plan.settings {
            own.insert(setting.id.clone(), Value::Table(table(entry.values(setting))));
        }
        rows.insert(entry.id.to_owned(), Value::Table(own));
    }
    all.insert("settings".to_owned(), Value::Table(settings));
    all.insert("rows".to_owned(), Value::Table(rows));
    format!(
        "# What `fedsi paper {}` runs: each row under each setting, on top of the defaults of `fedsi config`. Where a client is left \
         out of training it is another one for each seed; here that of seed {FIRST_SEED}.\n{all}",
        plan.experiment.id()
    )
}

fn table(values: Vec<Assignment>) -> Table {
    values.into_iter().collect()
}
