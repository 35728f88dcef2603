//! The methods, datasets and selection rules that a program knows, and what a config means by them: defaults, layers, checks.
//!
//! [`Registry::builtin`] has those of these crates; one written elsewhere is added by a `with_` function, and runs as the
//! built-in ones do.

mod checked;
mod resolve;

use std::sync::Arc;

use fedsi_bayes::{RuleNameError, Rules, SelectionRule};
use fedsi_data::{Dataset, Datasets, Size};

pub use checked::Checked;

use crate::config::{Config, ConfigError, MethodSettings, Overrides, Profile, hint};
use crate::methods::{METHODS, Method, meant};

/// What can be named in a config. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    methods: Arc<Vec<Method>>,
    datasets: Arc<Datasets>,
    rules: Rules,
}

impl Default for Registry {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Registry {
    /// The methods, datasets and rules of these crates.
    #[must_use]
    pub fn builtin() -> Self {
        let methods = METHODS.iter().map(|&method| *method).collect();
        Self { methods: Arc::new(methods), datasets: Arc::new(Datasets::builtin()), rules: Rules::builtin() }
    }

    /// The same with one more method; it takes the place of one with the same name.
    #[must_use]
    pub fn with_method(mut self, method: Method) -> Self {
        let methods = Arc::make_mut(&mut self.methods);
        match methods.iter_mut().find(|known| known.name == method.name) {
            Some(known) => *known = method,
            None => methods.push(method),
        }
        self
    }

    /// The same with one more dataset; it takes the place of one with the same name.
    #[must_use]
    pub fn with_dataset(mut self, dataset: Arc<dyn Dataset>) -> Self {
        self.datasets = Arc::new(Datasets::clone(&self.datasets).with(dataset));
        self
    }

    /// The same with one more selection rule.
    ///
    /// # Errors
    /// A name that is taken, or that no config could refer to.
    pub fn with_rule(mut self, rule: Arc<dyn SelectionRule>) -> Result<Self, RuleNameError> {
        self.rules.add(rule)?;
        Ok(self)
    }

    /// All selection rules.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// All methods, in the order in which help texts list them.
    #[must_use]
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// All datasets.
    #[must_use]
    pub fn datasets(&self) -> &Datasets {
        &self.datasets
    }

    /// The method of this name, in small or capital letters.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn method(&self, name: &str) -> Result<&Method, ConfigError> {
        meant(self.methods.iter(), name).ok_or_else(|| ConfigError::UnknownMethod {
            name: name.to_owned(),
            hint: hint(name, self.methods.iter().map(|method| method.name)),
            known: self.methods.iter().map(|method| method.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The dataset of this name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn dataset(&self, name: &str) -> Result<&Arc<dyn Dataset>, ConfigError> {
        Ok(self.datasets.find(name)?)
    }

    /// The settings of a method on a dataset, in the calibrated profile.
    ///
    /// # Errors
    /// An unknown method or dataset.
    pub fn defaults(&self, method: &str, dataset: &str, size: Size) -> Result<Config, ConfigError> {
        self.profile_defaults(method, dataset, size, Profile::Calibrated)
    }

    /// The settings of a method on a dataset in a profile. A method without a paper profile has one set of defaults.
    ///
    /// # Errors
    /// An unknown method or dataset.
    pub fn profile_defaults(
        &self,
        method: &str,
        dataset: &str,
        size: Size,
        profile: Profile,
    ) -> Result<Config, ConfigError> {
        let (method, dataset) = (self.method(method)?, self.dataset(dataset)?);
        let mut config = Config::for_dataset(method.name, dataset.as_ref(), size);
        config.profile = profile;
        config.method_settings = MethodSettings::defaults(method.settings);
        (method.defaults)(&mut config, &dataset.defaults(size));
        if let (Profile::Paper, Some(paper)) = (profile, method.paper) {
            paper(&mut config);
        }
        method.suit_learning_rate(&mut config);
        Ok(config)
    }

    /// Lays the overrides, in order, over the defaults of the method and dataset they name.
    ///
    /// # Errors
    /// Unknown and renamed keys (with the nearest or new one), values of the wrong type, unknown names.
    pub fn resolve(&self, overrides: &[Overrides]) -> Result<Config, ConfigError> {
        resolve::resolve(self, overrides)
    }

    /// Checks every value that can be checked without the data.
    ///
    /// # Errors
    /// The first value that cannot be used, and what it must be.
    pub fn check(&self, mut config: Config) -> Result<Checked, ConfigError> {
        let method = *self.method(&config.method)?;
        method.name.clone_into(&mut config.method);
        let dataset = Arc::clone(self.dataset(config.data.dataset.as_str())?);
        Checked::new(config, method, dataset, self.rules.clone())
    }
}

/// [`Registry::resolve`] with the built-in methods and datasets.
///
/// # Errors
/// Unknown and renamed keys (with the nearest or new one), values of the wrong type, unknown names.
pub fn resolve(overrides: &[Overrides]) -> Result<Config, ConfigError> {
    Registry::builtin().resolve(overrides)
}

impl Config {
    /// [`Registry::defaults`] with the built-in methods and datasets.
    ///
    /// # Errors
    /// An unknown method or dataset.
    pub fn defaults(method: &str, dataset: &str, size: Size) -> Result<Self, ConfigError> {
        Registry::builtin().defaults(method, dataset, size)
    }

    /// [`Registry::check`] with the built-in methods and datasets.
    ///
    /// # Errors
    /// The first value that cannot be used, and what it must be.
    pub fn check(self) -> Result<Checked, ConfigError> {
        Registry::builtin().check(self)
    }

    /// [`Registry::check`].
    ///
    /// # Errors
    /// The first value that cannot be used, and what it must be.
    pub fn check_with(self, registry: &Registry) -> Result<Checked, ConfigError> {
        registry.check(self)
    }
}
