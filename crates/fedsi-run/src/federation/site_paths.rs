//! Which files a site opens: those that it names itself, never those that a server's config names.

use std::path::Path;

use fedsi_data::site::SITE_KEYS;
use fedsi_data::{DataSpec, PartitionKind};
use fedsi_fl::Config;

use crate::federation_error::FederationError;

/// The keys of a config whose paths no site uses. They are cleared where a site opens its data.
pub const UNUSED_PATHS: [&str; 2] = ["partition.path", "checkpoint.state_dir"];

/// Refuses a server's config by which the site would open files that it did not name: `own` are the keys that it sets itself.
///
/// # Errors
/// A partition by a file, or a path that is not a default and not the site's own.
pub fn expect_own_paths(config: &Config, own: &[&str]) -> Result<(), FederationError> {
    let refused = |key, found: String, expected| Err(FederationError::ServerPath { key, found, expected });
    if config.partition.kind == PartitionKind::File {
        let expected = "another kind: its file would be the server's choice";
        return refused("partition.kind", "\"file\"".to_owned(), expected);
    }
    let defaults = DataSpec::defaults(config.data.dataset.as_str(), config.data.size);
    let value = |data: &DataSpec, key: &str| match key {
        "data.dir" => data.dir.clone(),
        "data.files.train" => data.files.train.clone(),
        _ => data.files.test.clone(),
    };
    for key in SITE_KEYS.into_iter().filter(|key| !own.contains(key)) {
        let found = value(&config.data, key);
        if found != value(&defaults, key) && found != Path::new("") {
            let expected = "the site's own code to say where its data is";
            return refused(key, format!("{:?}", found.display().to_string()), expected);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fedsi_data::Size;

    use super::*;

    #[test]
    fn a_server_names_no_file_of_a_site() {
        let config = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        let refused = |change: &dyn Fn(&mut Config), own: &[&str]| {
            let mut config = config.clone();
            change(&mut config);
            expect_own_paths(&config, own).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|_| (), &[]), None);
        assert!(refused(&|config| config.partition.kind = PartitionKind::File, &SITE_KEYS).is_some());
        type Change = fn(&mut Config);
        let changes: [Change; 3] = [
            |config| config.data.dir = "/etc".into(),
            |config| config.data.files.test = "/etc/passwd".into(),
            |config| config.data.files.train = "/etc/passwd".into(),
        ];
        for (key, change) in SITE_KEYS.into_iter().zip(changes) {
            let told = refused(&change, &[]).unwrap();
            assert!(told.contains(key) && told.contains("/etc"), "{told}");
            assert_eq!(refused(&change, &[key]), None, "the site's own comes over it");
        }
    }
}
