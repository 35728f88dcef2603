//! A key of the config with its value.

use toml::Value;

/// A key of the config and its value, on top of the defaults.
pub type Assignment = (String, Value);
