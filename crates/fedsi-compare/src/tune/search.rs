//! A method's search: the values to try next, the trials that were made, and what they choose.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fedsi_fl::methods::Method;
use serde::{Deserialize, Serialize};

use crate::CompareError;
use crate::comparison::Trial;

/// A value for each key that is tuned.
pub(super) type Values = BTreeMap<String, f64>;

/// The search of one method.
pub(super) struct GridSearch {
    pub(super) method: &'static Method,
    pub(super) grid: Vec<(&'static str, Vec<f64>)>,
    /// The values before the search: the method's defaults, or what the user set.
    pub(super) start: Values,
    /// The seeds on each of which everything is tried.
    seeds: Vec<u64>,
    /// The best values so far.
    values: Values,
    cache: Mutex<TrialCache>,
    file: PathBuf,
}

/// `tune/METHOD.json`: trials that need not be repeated.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TrialCache {
    /// The settings that all of them have, without the keys that are tuned.
    pub(super) settings: String,
    /// SHA-256 of the files that the trials read; not said by 0.1.
    #[serde(default)]
    pub(super) data: Option<Vec<String>>,
    pub(super) trials: Vec<Trial>,
}

impl GridSearch {
    /// A search from `start` on; what was tried before is in the cache, what will be goes to `file`.
    pub(super) fn new(
        method: &'static Method,
        grid: Vec<(&'static str, Vec<f64>)>,
        seeds: Vec<u64>,
        start: Values,
        cache: TrialCache,
        file: PathBuf,
    ) -> Self {
        Self { method, grid, seeds, values: start.clone(), start, cache: Mutex::new(cache), file }
    }

    /// The values to try for a key, the others as they were chosen or stand in the config.
    pub(super) fn candidates(&self, key: usize) -> Vec<Values> {
        let Some((name, values)) = self.grid.get(key) else { return Vec::new() };
        let with = |&value: &f64| {
            let mut all = self.values.clone();
            all.insert((*name).to_owned(), value);
            all
        };
        values.iter().map(with).collect()
    }

    /// The values to try for all rounds of a run: the `count` best of the search, of equals the first, and those before the search, so
    /// that every method has as many trials.
    pub(super) fn finalists(&self, count: usize) -> Vec<Values> {
        let mut scored: Vec<(f64, Values)> = Vec::new();
        for values in self.tried_in_search() {
            if values == self.start || scored.iter().any(|(_, other)| *other == values) {
                continue;
            }
            scored.extend(self.score(&values, None).map(|score| (score, values)));
        }
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| self.by_grid(&a.1, &b.1)));
        let best = scored.into_iter().take(count).map(|(_, values)| values);
        best.chain([self.start.clone()]).collect()
    }

    /// The values of every trial of the search, again for each seed.
    fn tried_in_search(&self) -> Vec<Values> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let of_search = cache.trials.iter().filter(|trial| trial.rounds.is_none());
        of_search.map(|trial| trial.values.clone()).collect()
    }

    /// The trial of these values on a seed in the search (`rounds` none), or for so many rounds.
    pub(super) fn known(&self, values: &Values, rounds: Option<usize>, seed: u64) -> Option<Trial> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |trial: &&Trial| {
            let of_seed = trial.seed.or(self.seeds.first().copied());
            trial.rounds == rounds && of_seed == Some(seed) && trial.values == *values
        };
        cache.trials.iter().find(is_it).cloned()
    }

    /// The mean score of these values over the seeds; none where a trial is not there or failed.
    fn score(&self, values: &Values, rounds: Option<usize>) -> Option<f64> {
        let of_seed = |&seed: &u64| self.known(values, rounds, seed)?.held_out_nll;
        let sum = self.seeds.iter().map(of_seed).sum::<Option<f64>>()?;
        Some(sum / self.seeds.len() as f64)
    }

    /// Writes a trial down at once: a killed process repeats at most what it was at.
    pub(super) fn remember(&self, trial: Trial) -> Result<(), CompareError> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.trials.push(trial);
        let text = serde_json::to_string_pretty(&*cache)
            .map_err(|error| CompareError::content(&self.file, &error))?;
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder).map_err(CompareError::write(folder))?;
        }
        Ok(fedsi_run::write_whole(&self.file, text.as_bytes())?)
    }

    /// Takes the value with the lowest score, what stands among them where it was tried; of equals the first; where all
    /// failed, what stands remains.
    pub(super) fn choose(&mut self, key: usize) {
        let Some(&(name, _)) = self.grid.get(key) else { return };
        let tried = std::iter::once(self.values.clone()).filter(|values| values.contains_key(name));
        match self.best(tried.chain(self.candidates(key)), None) {
            Some(best) => self.values = best,
            None => tracing::warn!("{}: every trial of {name} failed, it stays as it is", self.method.name),
        }
    }

    /// Takes the best of the trials for all rounds; where all failed, what the search chose remains.
    pub(super) fn choose_finalist(&mut self, count: usize, rounds: usize) {
        match self.best(self.finalists(count).into_iter(), Some(rounds)) {
            Some(best) => self.values = best,
            None => tracing::warn!(
                "{}: every trial of {rounds} rounds failed, the best of the search is taken",
                self.method.name
            ),
        }
    }

    /// Those of these values with the lowest score; of equals the first.
    fn best(&self, tried: impl Iterator<Item = Values>, rounds: Option<usize>) -> Option<Values> {
        let scored = tried.filter_map(|values| Some((self.score(&values, rounds)?, values)));
        scored.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, values)| values)
    }

    fn by_grid(&self, a: &Values, b: &Values) -> std::cmp::Ordering {
        let values = |all: &Values| -> Vec<f64> {
            self.grid.iter().filter_map(|(key, _)| all.get(*key).copied()).collect()
        };
        values(a).partial_cmp(&values(b)).unwrap_or(std::cmp::Ordering::Equal)
    }

    /// What was chosen, and the trials: those of the search first, in the order of the grid's values, whichever was ready first.
    pub(super) fn finish(self) -> (Values, Vec<Trial>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trials = std::mem::take(&mut cache.trials);
        drop(cache);
        trials.sort_by(|a, b| {
            let by_values = a.rounds.cmp(&b.rounds).then_with(|| self.by_grid(&a.values, &b.values));
            by_values.then_with(|| a.seed.cmp(&b.seed))
        });
        (self.values, trials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: &str = "training.learning_rate";

    fn rate(value: f64) -> Values {
        BTreeMap::from([(RATE.to_owned(), value)])
    }

    /// A search of learning rates from 1e-3 on, with trials (rate, score, rounds) on one seed.
    fn search(trials: &[(f64, Option<f64>, Option<usize>)]) -> GridSearch {
        let trials: Vec<_> = trials.iter().map(|&(value, nll, rounds)| (value, nll, rounds, None)).collect();
        search_on(&[1], &trials)
    }

    /// Rate, score, rounds, seed.
    type SeedTrial = (f64, Option<f64>, Option<usize>, Option<u64>);

    /// The same on these seeds, which trials name last; none for the first.
    fn search_on(seeds: &[u64], trials: &[SeedTrial]) -> GridSearch {
        let trials = trials.iter().map(|&(value, nll, rounds, seed)| Trial {
            values: rate(value),
            rounds,
            seed,
            held_out_nll: nll,
            held_out: None,
            seconds: 1.0,
            failure: None,
        });
        let cache = TrialCache { trials: trials.collect(), ..TrialCache::default() };
        let grid = vec![(RATE, vec![3e-4, 1e-3, 3e-3])];
        let method = fedsi_fl::methods::METHODS[0];
        GridSearch::new(method, grid, seeds.to_vec(), rate(1e-3), cache, PathBuf::new())
    }

    /// One lucky seed does not choose, and a setting that failed on a seed is not chosen.
    #[test]
    fn the_mean_over_seeds_decides() {
        let (short, all) = (None, Some(800));
        let trials = [
            (3e-4, Some(0.1), short, None),
            (3e-4, Some(0.9), short, Some(2)),
            (1e-3, Some(0.4), short, None),
            (1e-3, Some(0.4), short, Some(2)),
            (3e-3, Some(0.01), short, None),
            (3e-3, None, short, Some(2)),
            (3e-4, Some(0.3), all, None),
            (3e-4, Some(0.2), all, Some(2)),
            (1e-3, Some(0.1), all, None),
            (1e-3, Some(0.5), all, Some(2)),
        ];
        let mut both = search_on(&[1, 2], &trials);
        both.choose(0);
        assert_eq!(both.values, rate(1e-3));
        assert_eq!(both.finalists(9), [rate(3e-4), rate(1e-3)], "each once, none that failed on a seed");
        both.choose_finalist(9, 800);
        assert_eq!(both.values, rate(3e-4));
        let order: Vec<_> =
            both.finish().1.iter().map(|trial| (trial.rounds, trial.values[RATE], trial.seed)).collect();
        assert_eq!(order[..3], [(None, 3e-4, None), (None, 3e-4, Some(2)), (None, 1e-3, None)]);
        let mut first = search_on(&[1], &trials);
        first.choose(0);
        assert_eq!(first.values, rate(3e-3), "trials of other seeds do not count");
        let mut three = search_on(&[1, 2, 3], &trials);
        three.choose(0);
        assert_eq!(three.values, rate(1e-3), "nothing is tried on all three: the start stays");
    }

    /// Whatever the search finds of the defaults, they are tried beside as many others.
    #[test]
    fn the_defaults_are_always_among_the_finalists() {
        let found = [(3e-4, Some(0.5), None), (1e-3, Some(0.4), None), (3e-3, Some(0.3), None)];
        assert_eq!(search(&found).finalists(1), [rate(3e-3), rate(1e-3)]);
        assert_eq!(search(&found).finalists(2), [rate(3e-3), rate(3e-4), rate(1e-3)]);
        assert_eq!(search(&found).finalists(9).len(), 3, "no more than were tried");
        let failed = [(3e-4, None, None), (3e-3, Some(0.3), None)];
        assert_eq!(search(&failed).finalists(2), [rate(3e-3), rate(1e-3)], "a trial that failed is none");
    }

    /// What is best after few rounds gives way to what is best after all of them.
    #[test]
    fn trials_for_all_rounds_decide() {
        let mut all = vec![(3e-4, Some(0.5), None), (1e-3, Some(0.4), None), (3e-3, Some(0.3), None)];
        let mut short = search(&all);
        short.choose(0);
        assert_eq!(short.values, rate(3e-3));
        short.choose_finalist(2, 800);
        assert_eq!(short.values, rate(3e-3), "no trial for all rounds: what the search chose");
        all.extend([(3e-3, Some(0.6), Some(800)), (1e-3, Some(0.2), Some(800)), (3e-4, None, Some(800))]);
        let mut full = search(&all);
        full.choose(0);
        full.choose_finalist(2, 800);
        assert_eq!(full.values, rate(1e-3));
        full.choose_finalist(2, 400);
        assert_eq!(full.values, rate(1e-3), "trials of other rounds do not count");
        let (_, trials) = full.finish();
        let order: Vec<_> = trials.iter().map(|trial| (trial.rounds, trial.values[RATE])).collect();
        let (none, all) = (None, Some(800));
        assert_eq!(order, [(none, 3e-4), (none, 1e-3), (none, 3e-3), (all, 3e-4), (all, 1e-3), (all, 3e-3)]);
    }
}
