//! Keys of fedsi 0.1 under their present names, and what saved configs meant before a key was there.

use toml::{Table, Value};

/// Old key, new key.
const RENAMED: [(&str, &str); 8] = [
    ("federation.largest", "federation.outlier_factor"),
    ("fedsi.every", "fedsi.posterior_interval"),
    ("fedsi.noise", "training.weight_noise"),
    ("fedsi.spread", "fedsi.variance_average"),
    ("model.noise", "model.observation_noise"),
    ("training.batch", "training.batch_size"),
    ("training.rate", "training.learning_rate"),
    ("tuning.rate", "tuning.learning_rate"),
];

/// The methods of 0.1 that read `fedsi.noise`; in the configs of others it stood without a meaning.
const READ_NOISE: [&str; 2] = ["fedsi", "fedsi-fac"];

/// Keys that saved configs of earlier versions do not have, each with the sections it lies in, and what those versions did.
const BEFORE: [(&[&str], &str, Value); 6] = [
    (&["fedsi"], "modes", Value::Integer(1)),
    (&["training"], "convolution_noise", Value::Float(1.0)),
    (&["lg_fedavg"], "warm_start", Value::Float(0.0)),
    (&["pfedbayes"], "inner_steps", Value::Integer(1)),
    (&["fedpop"], "final_steps", Value::Integer(0)),
    (&["data", "files"], "strict", Value::Boolean(true)),
];

/// First words of a config that fedsi 0.1 wrote into a run's folder.
const SIGNATURE: &str = "# Written by fedsi 0.1";

/// Whether fedsi 0.1 wrote this text.
pub(super) fn is_from_0_1(text: &str) -> bool {
    text.strip_prefix(SIGNATURE).is_some_and(|rest| rest.starts_with('.'))
}

/// What a key of 0.1 is called now.
pub(super) fn new_name(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// A config of 0.1 under the present names.
pub(super) fn translate(mut table: Table) -> Table {
    let method = table.get("method").and_then(Value::as_str).unwrap_or("fedsi").to_owned();
    for (old, new) in RENAMED {
        let Some((section, key)) = old.split_once('.') else { continue };
        let Some(Value::Table(inner)) = table.get_mut(section) else { continue };
        let Some(value) = inner.remove(key) else { continue };
        if old == "fedsi.noise" && !READ_NOISE.contains(&method.as_str()) {
            continue;
        }
        let Some((section, key)) = new.split_once('.') else { continue };
        let target = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(target) = target {
            target.insert(key.to_owned(), value);
        }
    }
    table
}

/// A saved config with the values of settings that there was no key for when it was written.
pub(super) fn complete(mut table: Table) -> Table {
    for (sections, key, value) in BEFORE {
        let mut section = Some(&mut table);
        for name in sections {
            let inner = section.map(|table| table.entry(*name).or_insert_with(|| Value::Table(Table::new())));
            section = inner.and_then(Value::as_table_mut);
        }
        if let Some(section) = section {
            section.entry(key).or_insert(value);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_other_versions_are_told_apart() {
        assert!(is_from_0_1("# Written by fedsi 0.1.0.\nrounds = 2"));
        assert!(!is_from_0_1("# Written by fedsi 0.10.0.\n"));
        assert!(!is_from_0_1("# Written by fedsi 0.2.0.\n"));
        assert!(!is_from_0_1("rounds = 2"));
    }

    #[test]
    fn what_had_no_key_is_as_it_was() {
        let old = complete("[pfedbayes]\nzeta = 3.0\n".parse().unwrap());
        assert_eq!(old["lg_fedavg"]["warm_start"].as_float(), Some(0.0));
        assert_eq!(old["fedsi"]["modes"].as_integer(), Some(1));
        assert_eq!(old["data"]["files"]["strict"].as_bool(), Some(true), "tables were numbers alone");
        assert_eq!(old["pfedbayes"]["inner_steps"].as_integer(), Some(1));
        assert_eq!(old["pfedbayes"]["zeta"].as_float(), Some(3.0));
        let new = complete("[lg_fedavg]\nwarm_start = 0.5\n".parse().unwrap());
        assert_eq!(new["lg_fedavg"]["warm_start"].as_float(), Some(0.5));
    }

    #[test]
    fn weight_noise_is_kept_where_it_had_a_meaning() {
        let old =
            |method: &str| format!("method = '{method}'\n[fedsi]\nnoise = 0.1\nevery = 3\n").parse().unwrap();
        let new = translate(old("fedsi-fac"));
        assert_eq!(new["training"]["weight_noise"].as_float(), Some(0.1));
        assert_eq!(new["fedsi"]["posterior_interval"].as_integer(), Some(3));
        assert!(new["fedsi"].get("noise").is_none() && new["fedsi"].get("every").is_none());
        assert!(!translate(old("fedavg")).contains_key("training"));
    }
}
