//! What a site may say for itself of a config that all sites share.

/// The keys of a config by which a site says where its own data is. All others are the federation's: they decide what is
/// trained, and must be the same at every site.
pub const SITE_KEYS: [&str; 3] = ["data.dir", "data.files.test", "data.files.train"];

/// Whether a site may lay a value of its own over this key of the federation's config: those of [`SITE_KEYS`] alone.
#[must_use]
pub fn site_overrides_allowed(key: &str) -> bool {
    SITE_KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_says_where_its_data_is_and_nothing_else() {
        for key in SITE_KEYS {
            assert!(site_overrides_allowed(key));
        }
        let others =
            ["", "data", "data.files", "data.files.target", "data.files.standardize", "seed", "rounds"];
        let prefixes =
            ["data.dir.x", "data.files.train ", "Data.dir", "partition.path", "data.files.classes"];
        for key in others.into_iter().chain(prefixes) {
            assert!(!site_overrides_allowed(key), "{key}");
        }
    }
}
