//! Settings of methods that are written outside these crates: `[method_settings]`, with the keys that the method
//! declares.
//!
//! ```
//! use fedsi_fl::config::{MethodSettings, Setting};
//!
//! const STRENGTH: Setting<f64> = Setting::new("strength", 0.1).checked(|x| *x >= 0.0, "0 or above");
//! let settings = MethodSettings::default();
//! assert_eq!(settings.get(&STRENGTH), 0.1);
//! ```

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::ConfigError;

/// Keys and values of `[method_settings]`: numbers, text, true or false.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MethodSettings(#[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")] Table);

impl MethodSettings {
    /// The declared settings at their defaults.
    pub(crate) fn defaults(declared: &[&dyn DeclaredSetting]) -> Self {
        Self(declared.iter().map(|setting| (setting.key().to_owned(), setting.default_value())).collect())
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a setting: what the config says, else the declared default.
    #[must_use]
    pub fn get<T: SettingType>(&self, setting: &Setting<T>) -> T {
        self.0.get(setting.key).and_then(T::read).unwrap_or_else(|| setting.default.clone())
    }

    /// Sets a value.
    pub fn set<T: SettingType>(&mut self, setting: &Setting<T>, value: T) {
        self.0.insert(setting.key.to_owned(), value.write());
    }

    /// Every key must be declared, and every value be of its setting's type and range.
    pub(crate) fn check(&self, declared: &[&dyn DeclaredSetting]) -> Result<(), ConfigError> {
        for (key, value) in &self.0 {
            let whole = || format!("method_settings.{key}");
            let Some(setting) = declared.iter().find(|setting| setting.key() == key) else {
                return Err(ConfigError::Type {
                    key: whole(),
                    reason: "the method declares no such setting".to_owned(),
                });
            };
            if let Err(expected) = setting.check(value) {
                let reason = format!("found {value}, expected {expected}");
                return Err(ConfigError::Type { key: whole(), reason });
            }
        }
        Ok(())
    }
}

/// A setting that a method declares and reads: its key, its default and what it must be.
#[derive(Clone)]
pub struct Setting<T> {
    key: &'static str,
    default: T,
    accepts: fn(&T) -> bool,
    expected: Option<&'static str>,
}

impl<T> Setting<T> {
    /// A setting with any value of its type.
    #[must_use]
    pub const fn new(key: &'static str, default: T) -> Self {
        Self { key, default, accepts: |_| true, expected: None }
    }

    /// The same, refused where `accepts` is false; `expected` says in words what it must be.
    #[must_use]
    pub const fn checked(mut self, accepts: fn(&T) -> bool, expected: &'static str) -> Self {
        (self.accepts, self.expected) = (accepts, Some(expected));
        self
    }
}

impl<T: fmt::Debug> fmt::Debug for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key, self.default)
    }
}

/// The type of a setting's value: `f64`, `u64`, `bool` or text.
pub trait SettingType: Clone + fmt::Debug + Send + Sync + 'static {
    /// The type in words.
    const EXPECTED: &'static str;
    /// The value, where it is of this type.
    fn read(value: &Value) -> Option<Self>;
    /// The value as TOML.
    fn write(self) -> Value;
}

impl SettingType for f64 {
    const EXPECTED: &'static str = "a finite number";
    fn read(value: &Value) -> Option<Self> {
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as Self));
        number.filter(|number| number.is_finite())
    }
    fn write(self) -> Value {
        Value::Float(self)
    }
}

impl SettingType for u64 {
    const EXPECTED: &'static str = "a whole number, 0 or more";
    fn read(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|whole| Self::try_from(whole).ok())
    }
    /// TOML's whole numbers end at 2^63 - 1.
    fn write(self) -> Value {
        Value::Integer(i64::try_from(self).unwrap_or(i64::MAX))
    }
}

impl SettingType for bool {
    const EXPECTED: &'static str = "true or false";
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
    fn write(self) -> Value {
        Value::Boolean(self)
    }
}

impl SettingType for std::borrow::Cow<'static, str> {
    const EXPECTED: &'static str = "text";
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(|text| text.to_owned().into())
    }
    fn write(self) -> Value {
        Value::String(self.into_owned())
    }
}

/// A [`Setting`] of any type, as a method lists it.
pub trait DeclaredSetting: fmt::Debug + Send + Sync {
    /// Its key within `[method_settings]`.
    fn key(&self) -> &'static str;
    /// Its default.
    fn default_value(&self) -> Value;
    /// Whether a value may stand there.
    ///
    /// # Errors
    /// What was expected, in words.
    fn check(&self, value: &Value) -> Result<(), &'static str>;
}

impl<T: SettingType> DeclaredSetting for Setting<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn default_value(&self) -> Value {
        self.default.clone().write()
    }
    fn check(&self, value: &Value) -> Result<(), &'static str> {
        let read = T::read(value).ok_or(T::EXPECTED)?;
        if (self.accepts)(&read) { Ok(()) } else { Err(self.expected.unwrap_or(T::EXPECTED)) }
    }
}
