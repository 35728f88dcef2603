//! Configs that were checked.

use std::ops::Deref;
use std::sync::Arc;

use fedsi_bayes::Rules;
use fedsi_data::{DataError, Dataset, Federation, PooledSetting, Task};
use fedsi_nn::{LayerSpec, Network};

use crate::config::{Config, ConfigError, Temperature};
use crate::methods::{Method, Modes, Procedure, StructureError, Unprotected};
use crate::parameters::Part;
use crate::server::calibration_round;

/// Why data and privacy do not go together.
const POOLED: &str = "this dataset scales its values by the rows of all clients together, which would become known \
                      without noise; use 0, or data whose scales are fixed beforehand";

/// Why the encoding of a table and privacy do not go together.
const AGREED: &str = "categories, dates, medians and columns left out of this table follow from the rows of all clients \
                      together, and would become known without noise; use 0, or a table of numbers without missing values \
                      (data.files.strict=true names the first cell that is none)";

/// A config that was checked, with the method, dataset and rules it names. Nothing else can be run.
#[derive(Clone, Debug)]
pub struct Checked {
    config: Config,
    method: Method,
    dataset: Arc<dyn Dataset>,
    rules: Rules,
    scores_rounds: bool,
}

impl Deref for Checked {
    type Target = Config;
    fn deref(&self) -> &Config {
        &self.config
    }
}

impl Checked {
    /// Checks every value that can be checked without the data.
    pub(super) fn new(
        config: Config,
        method: Method,
        dataset: Arc<dyn Dataset>,
        rules: Rules,
    ) -> Result<Self, ConfigError> {
        config.check_values()?;
        config.method_settings.check(method.settings)?;
        let checked = Self { config, method, dataset, rules, scores_rounds: true };
        checked.check_procedure(&checked.tuned_procedure()?)?;
        if let Some(form) = checked.dataset.form() {
            checked.network(form.input_shape, form.task)?;
        }
        Ok(checked)
    }

    /// What the settings ask of a method must go with what it does.
    fn check_procedure(&self, procedure: &Procedure) -> Result<(), ConfigError> {
        procedure.check().map_err(|problem| ConfigError::Procedure {
            method: self.method.name.to_owned(),
            source: problem.into(),
        })?;
        let Modes { count, common_rounds } = procedure.modes;
        let own = calibration_round(self.rounds).saturating_sub(common_rounds);
        if count > 1 && own < count as u64 {
            let expected = format!(
                "with {} rounds at most {}: every mode must be trained before the federation chooses, after four fifths of the \
                 rounds; more rounds, or fewer modes",
                self.rounds,
                own.max(1)
            );
            return Err(ConfigError::value("fedsi.modes", count, expected));
        }
        if self.privacy.is_on() {
            self.check_privacy(procedure)?;
        }
        if self.partition.pooled_client && procedure.shared == Part::Nothing {
            let expected = format!(
                "false: the method {} shares nothing, so that clients would begin with nothing that the pooled data taught",
                self.method.name
            );
            return Err(ConfigError::value("partition.pooled_client", true, expected));
        }
        let noise = self.training.weight_noise;
        if noise > 0.0 && !procedure.trains_points() {
            let expected = format!(
                "the method {} trains distributions or samples, which have noise of their own; use 0",
                self.method.name
            );
            return Err(ConfigError::value("training.weight_noise", noise, expected));
        }
        Ok(())
    }

    /// With privacy nothing may become known of clients' data but the shared part with its noise.
    fn check_privacy(&self, procedure: &Procedure) -> Result<(), ConfigError> {
        if let Some(unprotected) = procedure.unprotected() {
            return Err(ConfigError::value("privacy.noise", self.privacy.noise, unprotected.to_string()));
        }
        if self.calibration.temperature == Temperature::AUTO {
            let expected = Unprotected::TemperatureSearch.to_string();
            return Err(ConfigError::value("calibration.temperature", "auto", expected));
        }
        if let Some(PooledSetting { key, found, instead }) = self.dataset.pooled(&self.data) {
            return Err(ConfigError::value(key, found, format!("with privacy.noise above 0, {instead}")));
        }
        let fraction = self.validation.fraction;
        if fraction > 0.0 {
            let expected = "with privacy.noise above 0, settings chosen by held-out scores would tell of clients without \
                            noise; use 0";
            return Err(ConfigError::value("validation.fraction", fraction, expected));
        }
        Ok(())
    }

    /// The method of the run.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// What the method does under these settings.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        // What cannot be tuned was refused when the config was checked.
        self.tuned_procedure().unwrap_or_else(|_| (self.method.declare)(&self.config))
    }

    /// What the method declares, with what `tuning.part` asks for.
    fn tuned_procedure(&self) -> Result<Procedure, ConfigError> {
        let declared = (self.method.declare)(&self.config);
        let Some(part) = self.tuning.part.part() else { return Ok(declared) };
        declared.with_tuning(part, &self.config).map_err(|problem| {
            let expected = format!("the method {}: {problem}; use head or method", self.method.name);
            ConfigError::value("tuning.part", part, expected)
        })
    }

    /// The dataset of the run.
    #[must_use]
    pub const fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.dataset
    }

    /// The selection rules that its settings can name.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Opens the data and divides it among clients, or puts all of it at one where `[partition]` says so. Costs what
    /// [`Dataset::open`] does.
    ///
    /// # Errors
    /// Where a file is missing or malformed, or the partition cannot be had from it.
    pub fn open_data(&self) -> Result<Box<dyn Federation>, DataError> {
        fedsi_data::open_dataset(self.dataset.as_ref(), &self.data, &self.partition, self.seed)
    }

    /// With privacy, data of which nothing is computed from the rows of all clients together.
    ///
    /// # Errors
    /// Data whose scales or encoding come from all rows.
    pub fn expect_unpooled(&self, data: &dyn Federation) -> Result<(), ConfigError> {
        if !self.privacy.is_on() || !data.pools_rows() {
            return Ok(());
        }
        let of_table = data.table_encoding().is_some_and(|encoding| !encoding.is_plain());
        let scaled = data.input_scaling().is_some() || data.target_scaling().is_some();
        let why = if of_table && !scaled { AGREED } else { POOLED };
        Err(ConfigError::value("privacy.noise", self.privacy.noise, why))
    }

    /// Classes, where predictions are to be over those of a client.
    ///
    /// # Errors
    /// A regression under `calibration.own_classes`.
    pub fn expect_classes(&self, task: Task) -> Result<(), ConfigError> {
        if self.calibration.own_classes && matches!(task, Task::Regression { .. }) {
            let expected = "false: a regression has no classes";
            return Err(ConfigError::value("calibration.own_classes", true, expected));
        }
        Ok(())
    }

    /// A federation of sites, whose data stays where it is.
    ///
    /// # Errors
    /// Settings that put all clients' data into one place.
    pub fn expect_divided(&self) -> Result<(), ConfigError> {
        let (pooled, client) = (self.partition.pooled, self.partition.pooled_client);
        for (key, is_set) in [("partition.pooled", pooled), ("partition.pooled_client", client)] {
            if is_set {
                let expected =
                    "false: the sites of a federation keep their data; pooled data is for simulations";
                return Err(ConfigError::value(key, true, expected));
            }
        }
        Ok(())
    }

    /// The same run on another number of threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.config.threads = threads;
        self
    }

    /// The same run without scores of held-out data in every round: they cost more than the training where predictions average
    /// over draws, and nobody reads them where only the end counts. No other result changes.
    #[must_use]
    pub fn without_round_scores(mut self) -> Self {
        self.scores_rounds = false;
        self
    }

    /// Whether participants are scored on the data they hold out in every round.
    pub(crate) const fn scores_rounds(&self) -> bool {
        self.scores_rounds
    }

    /// The network for inputs of this shape: the body, and a head with an output for each class or target.
    ///
    /// # Errors
    /// A body that does not fit the inputs, or that the method cannot choose a subnetwork of.
    pub fn network(&self, input: &[usize], task: Task) -> Result<Network, ConfigError> {
        let outputs = match task {
            Task::Classification { classes } => classes,
            Task::Regression { outputs } => outputs,
        };
        self.expect_classes(task)?;
        let mut layers = self.model.body.clone();
        layers.push(LayerSpec::Linear(outputs));
        let network = Network::new(input, &layers)?;
        let procedure = self.procedure();
        if let Some(laplace) = procedure.laplace() {
            let range = procedure.shared.range(network.layout());
            laplace.structure.check(network.layout(), range, &self.rules).map_err(|error| match error {
                StructureError::Rule(error) => ConfigError::Rule(error),
                StructureError::Selection(error) => ConfigError::Subnetwork(error),
            })?;
        }
        Ok(network)
    }
}
