//! From the newest shared parts to a client's own model.

use fedsi_random::{ChaCha8Rng, Purpose};
use rand_distr::{Distribution as _, StandardNormal};

use super::{Client, ClientError, LocalData, PersonalMode, PersonalModel, Start};
use crate::config::Temperature;
use crate::methods::{Phase, Uncertainty};
use crate::parameters::{HeadSamples, Parameters};
use crate::wire::{Download, SharedMode};

impl Client {
    /// A client's personal model, as it is evaluated: of every mode the newest shared part and what the client kept, tuned
    /// where the method tunes, with a posterior where it infers one.
    ///
    /// Cost: the method's epochs of tuning and one posterior, for each mode.
    ///
    /// # Errors
    /// Messages or state that do not fit; training that diverged; a posterior that cannot be computed.
    pub fn personalise(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        self.personal_model(client, download, kept, data, &self.procedure.personalise)
    }

    /// The personal model of a client that joins after training, from its own data alone. `client` is the key of its
    /// random draws: a number that no other client has. `kept` is what it kept, if it ever took part.
    ///
    /// Cost and errors as [`Self::personalise`].
    ///
    /// # Errors
    /// As [`Self::personalise`].
    pub fn join(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        self.personal_model(client, download, kept, data, &self.join_phases)
    }

    fn personal_model(
        &self,
        client: usize,
        download: &Download,
        kept: Option<&Parameters>,
        data: &LocalData,
        phases: &[Phase],
    ) -> Result<PersonalModel, ClientError> {
        if download.modes.is_empty() {
            return Err(ClientError::OtherModes { found: 0, expected: self.initial.len() });
        }
        let mode = |shared: &SharedMode| {
            let (parameters, start) = self.tune(client, download.round, shared, kept, data, phases)?;
            let parameters = self.with_posterior(client, download, shared.mode, parameters, &start, data)?;
            self.mode(client, parameters, data)
        };
        let modes: Result<Vec<PersonalMode>, ClientError> = download.modes.iter().map(mode).collect();
        let temperature = self.chosen_temperature(download);
        let mixture_temperature = download.calibration.average_temperature(self.task);
        let modes = modes?;
        let parameters: Vec<&Parameters> = modes.iter().map(|mode| &mode.parameters).collect();
        let strangeness = self.fit_strangeness(&parameters, data)?;
        let (draws, own_classes) = (self.draws(), self.own_classes(data, true));
        Ok(PersonalModel { client, modes, draws, temperature, mixture_temperature, own_classes, strangeness })
    }

    /// What every mode's logits are divided by: what is given, or what the federation has chosen.
    pub(super) fn chosen_temperature(&self, download: &Download) -> f64 {
        match self.temperature {
            Temperature::Fixed(temperature) => temperature,
            Temperature::Named(_) => download.calibration.temperature.unwrap_or(1.0),
        }
    }

    /// A mode's tuned parameters with the posterior of a personal model around them, where the method infers one.
    pub(super) fn with_posterior(
        &self,
        client: usize,
        download: &Download,
        mode: usize,
        tuned: Parameters,
        start: &Start,
        data: &LocalData,
    ) -> Result<Parameters, ClientError> {
        let Some(spec) = self.procedure.personal_posterior(download.calibration.prior_variance) else {
            return Ok(tuned);
        };
        let mut rng = self.personal_stream(Purpose::PersonalSelection, client, download.round, mode);
        self.infer(&spec, tuned, start.server.as_ref(), data, &mut rng)
    }

    /// A mode's parameters after tuning, and what they started from.
    pub(super) fn tune(
        &self,
        client: usize,
        round: u64,
        shared: &SharedMode,
        kept: Option<&Parameters>,
        data: &LocalData,
        phases: &[Phase],
    ) -> Result<(Parameters, Start), ClientError> {
        self.check_data(data)?;
        let start = self.start(shared, kept)?;
        let mut rng = self.personal_stream(Purpose::Tuning, client, round, shared.mode);
        let parameters = start.parameters.clone();
        let tuned = self.run_phases(parameters, start.server.as_ref(), phases, data, &mut rng)?;
        Ok((tuned.parameters, start))
    }

    /// Draws of a client that personalises: of each mode its own.
    pub(super) fn personal_stream(
        &self,
        purpose: Purpose,
        client: usize,
        round: u64,
        mode: usize,
    ) -> ChaCha8Rng {
        // No run has 2^48 rounds.
        self.streams.stream(purpose, client as u64, round | (mode as u64) << 48)
    }

    /// Draws that a prediction averages.
    pub(super) const fn draws(&self) -> usize {
        match &self.procedure.uncertainty {
            Uncertainty::Laplace(laplace) => laplace.draws,
            Uncertainty::MeanField(mean_field) => mean_field.draws,
            Uncertainty::Samples(samples) => samples.count,
            Uncertainty::None => 1,
        }
    }

    /// A model of these parameters alone, without a temperature.
    pub(super) fn single_model(
        &self,
        client: usize,
        parameters: Parameters,
        data: &LocalData,
    ) -> Result<PersonalModel, ClientError> {
        let PersonalMode { parameters, observation_noise } = self.mode(client, parameters, data)?;
        let mut model = PersonalModel::single(client, parameters, observation_noise, self.draws());
        model.own_classes = self.own_classes(data, true);
        Ok(model)
    }

    /// A network of these parameters, ready to predict. A head that was never sampled is drawn from its prior.
    fn mode(
        &self,
        client: usize,
        mut parameters: Parameters,
        data: &LocalData,
    ) -> Result<PersonalMode, ClientError> {
        if let (Parameters::Samples(HeadSamples { samples, .. }), Uncertainty::Samples(prior)) =
            (&mut parameters, &self.procedure.uncertainty)
            && samples.is_empty()
        {
            let mut rng = self.streams.stream(Purpose::PriorDraws, client as u64, 0);
            let deviation = prior.prior_variance.sqrt();
            let draw = |_| {
                let draw: f64 = StandardNormal.sample(&mut rng);
                (deviation * draw) as f32
            };
            samples.extend((0..prior.count * self.network.layout().head().len()).map(draw));
        }
        let observation_noise = self.observation_noise(parameters.values(), data)?;
        Ok(PersonalMode { parameters, observation_noise })
    }
}
