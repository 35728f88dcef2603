//! Learning rates and the like, chosen for every method by the same small grid on training data held out.
//!
//! One key after the other: `training.learning_rate` first, then the method's own setting at the best rate, then
//! `training.weight_noise` at the best of both. A method that has noise of its own has another setting in the place of the
//! last, one without settings of its own tries more learning rates. Every method so has three keys with three values each,
//! on the same seeds, for the same rounds: nine values, seven trials a seed where the defaults are among the values tried. What
//! each run chooses for itself on data set aside is on for all of them alike (`COMMON`). A trial trains without the held-out share of
//! each client's training data, makes personal models as at the end of a run, and is scored by their negative log
//! likelihood on that share. Test data is never used. Of several seeds the mean counts: what one seed holds out can be too
//! few samples to choose by.
//!
//! Trials are shorter than runs, and what is best after few rounds need not be best after many. So the best trials, and the
//! settings before the search, are made again for all rounds of a run (`Finalists`), and these decide. As many for every method.

mod search;

use std::path::Path;
use std::time::Instant;

use fedsi_fl::cost::WorkEstimate;
use fedsi_fl::methods::Method;
use fedsi_fl::scores::Scores;
use fedsi_fl::{Checked, Config};
use fedsi_run::settings::{DataPaths, result_settings};
use fedsi_run::{ComputeDevice, RunError};
use toml::{Table, Value};

use crate::CompareError;
use crate::comparison::{Finalists, Trial, TuningProtocol};
use crate::plan::{Settings, identity};
use crate::pool::{self, CompareObserver, DataCache, FileDigests};
use crate::spec::TuneSpec;
use search::{GridSearch, TrialCache, Values};

/// The share of training data that trials are scored on, where the config holds nothing out.
const HELD_OUT: f64 = 0.2;

/// The best trials that are made again for all rounds, beside the settings before the search.
const FINALISTS: usize = 2;

/// The first key of every method.
const RATE: &str = "training.learning_rate";

/// Learning rates that are tried, by every method.
const RATES: [f64; 3] = [3e-4, 1e-3, 3e-3];

/// Settings that every method has in its trials and in the runs that follow: what a run chooses by itself.
pub(crate) const COMMON: [(&str, &str); 1] = [("calibration.temperature", "auto")];

/// The keys that a method is tuned by, in order, with the values to try.
#[must_use]
pub fn grid(method: &Method) -> Vec<(&'static str, Vec<f64>)> {
    let own = method.tuned.iter().map(|setting| (setting.key, setting.values.to_vec()));
    std::iter::once((RATE, RATES.to_vec())).chain(own).collect()
}

/// What all methods that are tuned have in common, and these values; nothing where nothing is tuned.
fn with_common(values: &Values) -> Vec<(&str, Value)> {
    let common = COMMON.iter().filter(|_| !values.is_empty());
    let common = common.map(|&(key, value)| (key, Value::String(value.to_owned())));
    common.chain(values.iter().map(|(key, &value)| (key.as_str(), Value::Float(value)))).collect()
}

/// What tuning found for a method.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunedValues {
    /// Chosen values, by key.
    pub(crate) values: Values,
    /// Every trial, in order.
    pub(crate) trials: Vec<Trial>,
}

impl TunedValues {
    /// The chosen values as settings.
    pub(crate) fn settings(&self) -> Vec<(&str, Value)> {
        with_common(&self.values)
    }
}

/// How all methods are tuned: with as many rounds as asked for, or a quarter of a run's and at least ten, never more than
/// a run's; then so many finalists for a run's rounds, none where trials have as many.
pub(crate) fn protocol(config: &Config, spec: &TuneSpec) -> TuningProtocol {
    let fraction = config.validation.fraction;
    let rounds = spec.rounds.unwrap_or_else(|| (config.rounds / 4).max(10).min(config.rounds));
    let count = if rounds < config.rounds { spec.finalists.unwrap_or(FINALISTS) } else { 0 };
    TuningProtocol {
        rounds,
        finalists: (count > 0).then_some(Finalists { count, rounds: config.rounds }),
        seed: config.seed,
        seeds: spec.seeds.unwrap_or(1),
        held_out: if fraction > 0.0 { fraction } else { HELD_OUT },
        score: "nll".to_owned(),
    }
}

/// What trials need.
pub(crate) struct Tuner<'a> {
    pub(crate) settings: &'a Settings<'a>,
    pub(crate) protocol: &'a TuningProtocol,
    /// The protocol's seeds.
    pub(crate) seeds: Vec<u64>,
    /// Digests of the data as it is now.
    pub(crate) files: &'a FileDigests,
    /// The comparison's folder; trials are remembered in `tune/` there.
    pub(crate) folder: &'a Path,
    pub(crate) data: &'a DataCache,
    pub(crate) observer: &'a dyn CompareObserver,
    pub(crate) workers: usize,
    pub(crate) threads: usize,
}

/// One trial to be made.
struct Job<'a> {
    search: &'a GridSearch,
    values: Values,
    /// Rounds, where they are not those of the search.
    rounds: Option<usize>,
    seed: u64,
    config: Checked,
    work: WorkEstimate,
    name: String,
}

impl Tuner<'_> {
    /// The settings of a trial.
    fn config(
        &self,
        method: &Method,
        values: &Values,
        rounds: usize,
        seed: u64,
    ) -> Result<Checked, CompareError> {
        let mut all = with_common(values);
        all.push(("rounds", Value::Integer(i64::try_from(rounds).unwrap_or(i64::MAX))));
        all.push(("validation.fraction", Value::Float(self.protocol.held_out)));
        all.extend(identity(method, seed));
        Ok((self.settings)(&all)?)
    }

    /// A method before its first trial, with those an earlier process made under the same settings.
    fn search(&self, method: &'static Method) -> Result<GridSearch, CompareError> {
        let config = self.config(method, &Values::new(), self.protocol.rounds, self.protocol.seed)?;
        let grid = grid(method);
        let mut table = Table::try_from(result_settings(&config, DataPaths::Compare))
            .map_err(|error| CompareError::content(self.folder, &error))?;
        let start = |&(key, _): &(&str, _)| Some((key.to_owned(), take(&mut table, key)?.as_float()?));
        let start = grid.iter().filter_map(start).collect();
        let file = self.folder.join("tune").join(format!("{}.json", method.name));
        let settings = table.to_string();
        let remembered = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let data: Option<Vec<String>> = match self.files.of(&config) {
            Ok(files) => Some(files.into_iter().map(|file| file.sha256).collect()),
            Err(reason) => {
                tracing::warn!("trials that are remembered cannot be compared with their data: {reason}");
                None
            }
        };
        let same = |cache: &TrialCache| {
            cache.settings == settings && (data.is_none() || cache.data.is_none() || cache.data == data)
        };
        let cache = remembered.filter(same).unwrap_or(TrialCache { settings, data, trials: Vec::new() });
        Ok(GridSearch::new(method, grid, self.seeds.clone(), start, cache, file))
    }

    /// Tunes every method: one key after the other, the trials of all methods for a key side by side.
    pub(crate) fn tune(&self, methods: &[&'static Method]) -> Result<Vec<TunedValues>, CompareError> {
        let mut searches =
            methods.iter().map(|method| self.search(method)).collect::<Result<Vec<_>, CompareError>>()?;
        let keys = searches.iter().map(|search| search.grid.len()).max().unwrap_or(0);
        for key in 0..keys {
            self.try_all(&searches, "tuning", None, |search| search.candidates(key))?;
            for search in &mut searches {
                search.choose(key);
            }
        }
        if let Some(Finalists { count, rounds }) = self.protocol.finalists {
            self.try_all(&searches, "tuning, all rounds", Some(rounds), |search| search.finalists(count))?;
            for search in &mut searches {
                search.choose_finalist(count, rounds);
            }
        }
        let tuned = searches.into_iter().map(GridSearch::finish);
        Ok(tuned.map(|(values, trials)| TunedValues { values, trials }).collect())
    }

    /// Makes the trials of every method that are not remembered; for `rounds`, where they are not those of the search.
    fn try_all(
        &self,
        searches: &[GridSearch],
        stage: &str,
        rounds: Option<usize>,
        candidates: impl Fn(&GridSearch) -> Vec<Values>,
    ) -> Result<(), CompareError> {
        let (mut jobs, mut reused) = (Vec::new(), 0);
        // As many on every seed: data is opened for it once, and not where no trial is missing.
        let mut clients = None;
        // Seed by seed, so that trials share open data.
        for (seed, search) in self.seeds.iter().flat_map(|&seed| searches.iter().map(move |one| (seed, one)))
        {
            for values in candidates(search) {
                if search.known(&values, rounds, seed).is_some() {
                    reused += 1;
                    continue;
                }
                let trial_rounds = rounds.unwrap_or(self.protocol.rounds);
                let config = self.config(search.method, &values, trial_rounds, seed)?;
                let clients = match clients {
                    Some(clients) => clients,
                    None => *clients.insert(self.data.open(&config)?.federation.clients()),
                };
                let shown: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let name = format!("{} {}, seed {seed}", search.method.name, shown.join(" "));
                let work = WorkEstimate::of(&config, clients);
                jobs.push(Job { search, values, rounds, seed, work, config, name });
            }
        }
        jobs.sort_by_key(|job| (job.seed, std::cmp::Reverse(job.work.total(job.config.rounds))));
        let units = jobs.iter().map(|job| job.work.total(job.config.rounds)).sum();
        self.observer.stage(stage, jobs.len(), reused, units);
        let outcomes = pool::run_jobs(
            &jobs,
            self.workers,
            self.threads,
            || self.observer.wants_to_stop(),
            |job, threads| {
                self.observer.started(&job.name);
                let begun = Instant::now();
                let scored = self.trial(job, threads);
                let (scores, mut failure) = match scored {
                    Ok(scores) => (Some(scores), None),
                    Err(error) => (None, Some(error.to_string())),
                };
                let nll = scores.as_ref().and_then(Scores::nll).filter(|nll| nll.is_finite());
                if nll.is_none() && failure.is_none() {
                    failure = Some("a personal model predicts values that are not finite".to_owned());
                }
                self.observer.finished(&job.name, failure.as_deref().map_or(Ok(()), Err));
                let trial = Trial {
                    values: job.values.clone(),
                    rounds: job.rounds,
                    seed: (job.seed != self.protocol.seed).then_some(job.seed),
                    held_out_nll: nll,
                    held_out: scores.filter(|_| nll.is_some()),
                    seconds: begun.elapsed().as_secs_f64(),
                    failure,
                };
                // A trial that was stopped has no score.
                if self.observer.wants_to_stop() {
                    return Ok(());
                }
                job.search.remember(trial).map_err(|error| error.to_string())
            },
        );
        if self.observer.wants_to_stop() {
            return Err(CompareError::Interrupted { path: self.folder.to_owned() });
        }
        match outcomes.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(reason) => Err(CompareError::content(&self.folder.join("tune"), &reason)),
        }
    }

    /// Trains with the held-out share left out, and scores personal models on it.
    fn trial(&self, job: &Job<'_>, threads: usize) -> Result<Scores, RunError> {
        let config = job.config.clone().with_threads(threads).without_round_scores();
        let device = ComputeDevice::open(config.device)?;
        let mut simulation = device.simulation(&config, self.data.open(&config)?.federation)?;
        for _ in 0..config.rounds {
            if self.observer.wants_to_stop() {
                let (round, rounds) = (simulation.server().round(), config.rounds);
                return Err(RunError::Interrupted { round, rounds });
            }
            simulation.round()?;
            self.observer.advanced(job.work.round);
        }
        let scores = simulation.validate()?;
        self.observer.advanced(job.work.end);
        Ok(scores)
    }
}

/// Removes a dotted key from a table.
fn take(table: &mut Table, key: &str) -> Option<Value> {
    match key.split_once('.') {
        None => table.remove(key),
        Some((section, rest)) => take(table.get_mut(section)?.as_table_mut()?, rest),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use fedsi_data::Size;
    use fedsi_fl::config::Overrides;
    use fedsi_fl::methods::METHODS;

    /// As many trials for each method, whichever rate is best: three of the rate, and two of each other key whose default
    /// is among its values.
    #[test]
    fn every_method_has_the_same_number_of_trials() {
        for method in METHODS {
            for dataset in ["digits", "mnist", "cifar-10"] {
                let config = Config::defaults(method.name, dataset, Size::Small).unwrap();
                let grid = grid(method);
                assert_eq!(grid[0], (RATE, RATES.to_vec()), "{}", method.name);
                let table = Table::try_from(&config).unwrap();
                for best in RATES {
                    let mut tried = std::collections::BTreeSet::new();
                    let default = |key: &str| take(&mut table.clone(), key).unwrap().as_float().unwrap();
                    let mut values: BTreeMap<&str, f64> =
                        grid.iter().map(|&(key, _)| (key, default(key))).collect();
                    for (key, tries) in &grid {
                        for &value in tries {
                            values.insert(key, value);
                            tried.insert(format!("{values:?}"));
                        }
                        values.insert(key, if *key == RATE { best } else { default(key) });
                    }
                    assert_eq!(tried.len(), 7, "{} on {dataset}, best rate {best}", method.name);
                }
            }
        }
    }

    /// A method that has noise of its own is not asked to train under more.
    #[test]
    fn every_trial_is_allowed() {
        for method in METHODS {
            for (key, values) in grid(method) {
                let value = Value::Float(values[1]);
                let settings =
                    [("method".to_owned(), Value::String(method.name.to_owned())), (key.to_owned(), value)];
                let layer = Overrides::from_assignments("a trial", settings.to_vec()).unwrap();
                fedsi_fl::resolve(&[layer]).unwrap().check().unwrap();
            }
        }
    }

    #[test]
    fn a_trial_is_never_longer_than_a_run() {
        let mut config = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        for (rounds, wanted, expected) in [(60, None, 15), (20, None, 10), (4, None, 4), (60, Some(3), 3)] {
            config.rounds = rounds;
            assert_eq!(
                protocol(&config, &TuneSpec { rounds: wanted, ..TuneSpec::default() }).rounds,
                expected
            );
        }
        let default = protocol(&config, &TuneSpec::default());
        assert_eq!((default.held_out, default.seeds), (0.2, 1));
        let finalists =
            |rounds, finalists| protocol(&config, &TuneSpec { rounds, finalists, seeds: None }).finalists;
        assert_eq!(finalists(None, None), Some(Finalists { count: 2, rounds: 60 }));
        assert_eq!(finalists(Some(3), Some(1)), Some(Finalists { count: 1, rounds: 60 }));
        assert_eq!(finalists(Some(60), Some(1)), None, "trials have all rounds as it is");
        assert_eq!(finalists(None, Some(0)), None);
    }
}
