//! Which settings decide a run's results, and whether two configs agree in them: the one place that knows.

use std::path::{Path, PathBuf};

use fedsi_fl::config::{CheckpointConfig, DeviceName, ModesSetting, Overrides, Weighting, WeightingName};
use fedsi_fl::{Config, ConfigError, Registry};
use fedsi_nn::LayerSpec;
use toml::{Table, Value};

/// The settings in a run's `config.toml`, also where an older version wrote it.
///
/// # Errors
/// A file that is missing, damaged, or has keys that no version knows.
pub fn read_config(folder: &Path) -> Result<Config, ConfigError> {
    read_config_with(folder, &Registry::builtin())
}

/// The same where its method, dataset or rule may be of this registry.
///
/// # Errors
/// As [`read_config`].
pub fn read_config_with(folder: &Path, registry: &Registry) -> Result<Config, ConfigError> {
    registry.resolve(&[Overrides::from_saved(&folder.join("config.toml"))?])
}

/// Every setting that is a path. A config must mean the same from any working directory: these are made absolute
/// before it is written.
pub fn paths(config: &mut Config) -> [&mut PathBuf; 5] {
    [
        &mut config.data.dir,
        &mut config.data.files.train,
        &mut config.data.files.test,
        &mut config.partition.path,
        &mut config.checkpoint.state_dir,
    ]
}

/// Whether settings that differ only in where the data is are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPaths {
    /// Other paths may hold other data.
    Compare,
    /// The same data may have been moved.
    Ignore,
}

/// The settings that decide a run's results: without threads and checkpoints, which change nothing, without the device, which
/// changes roundings, without a data folder that is never read, and without the settings of other methods. What is left to the method is said.
#[must_use]
pub fn result_settings(config: &Config, data: DataPaths) -> Config {
    let mut config = config.clone();
    config.threads = 0;
    config.device = DeviceName::Cpu;
    config.checkpoint = CheckpointConfig::defaults();
    reset_unread(&mut config);
    if data == DataPaths::Ignore {
        paths(&mut config).into_iter().for_each(|path| *path = PathBuf::new());
    } else if let Ok(dataset) = Registry::builtin().dataset(config.data.dataset.as_str())
        && !dataset.reads_dir()
    {
        config.data.dir = PathBuf::new();
    }
    config
}

/// Settings that a built-in method does not read are as if nothing was said of them, so that runs of earlier versions, which
/// had other defaults of other methods, are still known. Methods of a program's own may read any.
fn reset_unread(config: &mut Config) {
    let registry = Registry::builtin();
    let (name, size) = (config.method.clone(), config.data.size);
    let Ok(method) = registry.method(&name) else { return };
    let dataset = config.data.dataset.as_str();
    let Ok(defaults) = registry.profile_defaults(&name, dataset, size, config.profile) else {
        return;
    };
    let reads = |methods: &[&str]| methods.contains(&name.as_str());
    if !reads(&["fedsi", "fedsi-fac"]) {
        config.fedsi = defaults.fedsi;
    }
    config.fedsi.modes =
        ModesSetting::Fixed(config.fedsi.modes.count(config.rounds, config.training.weight_noise));
    let convolutions = config.model.body.iter().any(|layer| matches!(layer, LayerSpec::Conv(_)));
    if !convolutions || config.training.weight_noise <= 0.0 {
        config.training.convolution_noise = defaults.training.convolution_noise;
    }
    if !reads(&["fedbabu"]) {
        config.fedbabu = defaults.fedbabu;
    }
    if !reads(&["lg-fedavg"]) {
        config.lg_fedavg = defaults.lg_fedavg;
    }
    if !reads(&["pfedbayes", "bpfed"]) {
        config.mean_field = defaults.mean_field;
    }
    if !reads(&["pfedbayes"]) {
        config.pfedbayes = defaults.pfedbayes;
    }
    if !reads(&["bpfed"]) {
        config.bpfed = defaults.bpfed;
    }
    if !reads(&["fedpop"]) {
        config.fedpop = defaults.fedpop;
    }
    config.federation.weighting = match config.weighting(&(method.declare)(config)) {
        Weighting::Uniform => WeightingName::Uniform,
        Weighting::Samples => WeightingName::Samples,
    };
}

/// The settings that a run's results belong to, as text. Where the data is does not matter: it may have been moved.
///
/// # Errors
/// Settings that cannot be written as JSON.
pub fn settings_text(config: &Config) -> Result<String, serde_json::Error> {
    let mut settings = serde_json::to_value(result_settings(config, DataPaths::Ignore))?;
    for (section, key) in LATER_KEYS {
        let section = settings.get_mut(section).and_then(serde_json::Value::as_object_mut);
        let says_nothing =
            |value: &serde_json::Value| *value == false || value.as_array().is_some_and(Vec::is_empty);
        if let Some(section) = section.filter(|section| section.get(key).is_some_and(says_nothing)) {
            section.shift_remove(key);
        }
    }
    serde_json::to_string(&settings)
}

/// Keys that came after runs had been saved. False and an empty list say nothing: a run is then what it was without the key,
/// which is not part of the text, so that such runs and their models are still known.
const LATER_KEYS: [(&str, &str); 5] = [
    ("federation", "novel_clients"),
    ("partition", "unequal"),
    ("partition", "pooled"),
    ("partition", "pooled_client"),
    ("calibration", "own_classes"),
];

/// The first setting in which two configs would give other results, with both values; none where they agree. Keys in
/// `undecided` may differ.
///
/// # Errors
/// A config that cannot be written as TOML.
pub fn first_difference(
    there: &Config,
    here: &Config,
    data: DataPaths,
    undecided: &[&str],
) -> Result<Option<String>, toml::ser::Error> {
    let [there, here] = [there, here].map(|config| Table::try_from(result_settings(config, data)));
    Ok(table_difference(&there?, &here?, "", undecided))
}

fn table_difference(there: &Table, here: &Table, prefix: &str, undecided: &[&str]) -> Option<String> {
    let mut keys: Vec<&String> = here.keys().collect();
    keys.extend(there.keys().filter(|key| !here.contains_key(*key)));
    keys.into_iter().find_map(|key| {
        let whole = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (there.get(key), here.get(key)) {
            (Some(Value::Table(there)), Some(Value::Table(here))) => {
                table_difference(there, here, &whole, undecided)
            }
            (there, here) if there == here || undecided.contains(&whole.as_str()) => None,
            (there, here) => {
                let text = |value: Option<&Value>| value.map_or("not set".to_owned(), Value::to_string);
                Some(format!("`{whole}` is {} there and {} here", text(there), text(here)))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use fedsi_data::Size;

    use super::*;

    #[test]
    fn what_changes_no_result_is_no_difference() {
        let here = Config::defaults("fedavg", "mnist", Size::Small).unwrap();
        let mut there = here.clone();
        (there.threads, there.checkpoint.rounds, there.checkpoint.state_dir) = (7, 3, "/tmp/states".into());
        let difference = |there: &Config, data| first_difference(there, &here, data, &[]).unwrap();
        assert_eq!(difference(&there, DataPaths::Compare), None);
        there.data.dir = "/elsewhere".into();
        assert_eq!(difference(&there, DataPaths::Ignore), None);
        assert!(difference(&there, DataPaths::Compare).unwrap().starts_with("`data.dir` is \"/elsewhere\""));
        (there.fedpop.step, there.lg_fedavg.warm_start) = (0.5, 0.1);
        there.federation.weighting = WeightingName::Samples;
        assert_eq!(
            difference(&there, DataPaths::Ignore),
            None,
            "other methods' settings, and what it does anyway"
        );
        there.federation.weighting = WeightingName::Uniform;
        assert!(
            difference(&there, DataPaths::Ignore).unwrap().contains("`federation.weighting` is \"uniform\"")
        );
        there.federation.weighting = WeightingName::Method;
        there.rounds += 1;
        let found = difference(&there, DataPaths::Ignore).unwrap();
        assert_eq!(found, format!("`rounds` is {} there and {} here", there.rounds, here.rounds));
        assert_eq!(first_difference(&there, &here, DataPaths::Ignore, &["rounds"]).unwrap(), None);
    }

    /// The id of a saved run follows from this text.
    #[test]
    fn later_keys_are_in_the_text_only_where_they_say_something() {
        let mut config = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        let text = settings_text(&config).unwrap();
        assert!(!["novel_clients", "unequal", "pooled"].iter().any(|key| text.contains(key)), "{text}");
        let whole = serde_json::to_string(&result_settings(&config, DataPaths::Ignore)).unwrap();
        let without = whole.replace(",\"novel_clients\":[]", "");
        let without = without.replace(",\"unequal\":false", "").replace(",\"pooled\":false", "");
        let without = without.replace(",\"pooled_client\":false", "");
        let without = without.replace(",\"own_classes\":false", "");
        assert_eq!(text, without, "nothing else changes, nor the order");
        (config.federation.novel_clients, config.partition.unequal) = (vec![3], true);
        let text = settings_text(&config).unwrap();
        assert!(text.contains("\"novel_clients\":[3]") && text.contains("\"unequal\":true"), "{text}");
    }

    #[test]
    fn the_folder_of_data_that_is_drawn_does_not_matter() {
        let here = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        let there =
            Config { data: fedsi_data::DataSpec { dir: "/x".into(), ..here.data.clone() }, ..here.clone() };
        assert_eq!(first_difference(&there, &here, DataPaths::Compare, &[]).unwrap(), None);
    }

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let (one, other) = (table("a = 1\n[b]\nc = 2\nd = 3"), table("a = 1\n[b]\nc = 5\nd = 6"));
        assert_eq!(table_difference(&one, &other, "", &[]).unwrap(), "`b.c` is 2 there and 5 here");
        assert_eq!(table_difference(&one, &other, "", &["b.c"]).unwrap(), "`b.d` is 3 there and 6 here");
        assert_eq!(table_difference(&one, &one, "", &[]), None);
    }
}
