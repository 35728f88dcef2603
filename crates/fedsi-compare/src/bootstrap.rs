//! Intervals of differences by resampling seeds, and clients within them.
//!
//! A replicate draws as many seeds as there are with replacement and, within each draw of a seed, as many clients as it has;
//! scores are computed again from the clients drawn (of ECE and AURC too, which are no means over clients), the same
//! clients for both methods. The interval is from the 2.5th to the 97.5th percentile of the mean difference.
//!
//! Draws come from streams keyed by seed, so that intervals are the same whatever else is compared and on any number of
//! threads. For each seed a fixed number of draws of clients is scored once, and replicates choose among them: the work
//! grows with seeds, not with replicates.
//!
//! What it is worth: resampling n seeds makes intervals too narrow where they are few (by `sqrt((n - 1) / n)`, and by the
//! normal quantile in place of Student's), resampling clients on top a little too wide, since differences between seeds
//! contain those between clients already. Resampled clients make every ECE larger by the same kind of noise, which cancels
//! in differences as far as two methods are alike.

use std::collections::BTreeMap;

use fedsi_random::{Purpose, SERVER, Streams};
use rand::RngExt as _;

use crate::client_sums::RunSums;
use crate::statistics::MetricResult;

/// Draws of clients that are scored of each seed.
const DRAWS: usize = 500;

/// Replicates of the mean over seeds.
const REPLICATES: usize = 10_000;

/// The share of replicates below an interval, and above it.
const TAIL: f64 = 0.025;

/// Scores by draw, in the order of the keys, the last with every client once.
type Scored = (Vec<&'static str>, Vec<Vec<f64>>);

/// Adds intervals to the differences that there are. `sums` has each method's runs by seed; a method that lacks one that
/// the reference has, or other clients, gets none, nor does any with fewer than two seeds. Costs
/// [`DRAWS`] times seeds times methods passes over sums of clients.
pub(crate) fn add_intervals(
    results: &mut [BTreeMap<String, MetricResult>],
    sums: &[BTreeMap<u64, RunSums>],
    reference: Option<usize>,
) {
    let Some(of_reference) = reference.and_then(|reference| sums.get(reference)) else { return };
    if of_reference.len() < 2 {
        return;
    }
    let weights: BTreeMap<u64, Vec<Vec<f64>>> =
        of_reference.iter().map(|(&seed, run)| (seed, weights(seed, run.clients.len()))).collect();
    let other: Vec<Scored> = of_reference.iter().map(|(seed, run)| scored(run, &weights[seed])).collect();
    let choices = choices(of_reference.len());
    for (results, own) in results.iter_mut().zip(sums) {
        let same_clients = own.len() == of_reference.len()
            && own.iter().zip(of_reference).all(|(a, b)| a.0 == b.0 && a.1.clients == b.1.clients);
        if !same_clients || results.values().all(|result| result.difference.is_none()) {
            continue;
        }
        let own: Vec<Scored> = own.iter().map(|(seed, run)| scored(run, &weights[seed])).collect();
        for (key, result) in results.iter_mut() {
            let Some(difference) = result.difference.as_mut() else { continue };
            let column = |(keys, _): &Scored| keys.iter().position(|own| own == key);
            let Some(place) = own.first().and_then(column) else { continue };
            if own.iter().chain(&other).any(|run| column(run) != Some(place)) {
                continue;
            }
            difference.bootstrap = interval(&own, &other, place, &choices, difference.mean);
        }
    }
}

/// How often each of a seed's clients counts, draw by draw; once each in the last.
fn weights(seed: u64, clients: usize) -> Vec<Vec<f64>> {
    let draw = |draw: usize| {
        let mut rng = Streams::new(seed).stream(Purpose::Resampling, SERVER, draw as u64);
        let mut weights = vec![0.0; clients];
        (0..clients).for_each(|_| weights[rng.random_range(0..clients)] += 1.0);
        weights
    };
    (0..DRAWS).map(draw).chain([vec![1.0; clients]]).collect()
}

fn scored(run: &RunSums, weights: &[Vec<f64>]) -> Scored {
    let keys = weights.last().map(|once| run.scores(once).iter().map(|one| one.key).collect());
    let scores = weights.iter().map(|weights| run.scores(weights).iter().map(|one| one.value).collect());
    (keys.unwrap_or_default(), scores.collect())
}

/// The seeds, by their place, and the draws of their clients that make up each replicate.
fn choices(seeds: usize) -> Vec<Vec<(usize, usize)>> {
    let replicate = |replicate: usize| {
        let mut rng = Streams::new(0).stream(Purpose::Resampling, SERVER - 1, replicate as u64);
        (0..seeds).map(|_| (rng.random_range(0..seeds), rng.random_range(0..DRAWS))).collect()
    };
    (0..REPLICATES).map(replicate).collect()
}

/// The percentiles of the mean difference, moved by what the sums' own estimate is off from `mean`.
fn interval(
    own: &[Scored],
    other: &[Scored],
    place: usize,
    choices: &[Vec<(usize, usize)>],
    mean: f64,
) -> Option<[f64; 2]> {
    let difference = |seed: usize, draw: usize| own[seed].1[draw][place] - other[seed].1[draw][place];
    let seeds = own.len() as f64;
    let once: f64 = (0..own.len()).map(|seed| difference(seed, DRAWS)).sum::<f64>() / seeds;
    let replicate = |chosen: &Vec<(usize, usize)>| -> f64 {
        chosen.iter().map(|&(seed, draw)| difference(seed, draw)).sum::<f64>() / seeds
    };
    let replicates: Vec<f64> = choices.iter().map(replicate).collect();
    let end = |share| fedsi_metrics::quantile(&replicates, share).map(|found| found - once + mean);
    let ends = [end(TAIL)?, end(1.0 - TAIL)?];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_sums::tests::sums;
    use crate::statistics::Difference;

    fn runs(seeds: u64, clients: usize, from: u64, skill: f64) -> BTreeMap<u64, RunSums> {
        (1..=seeds).map(|seed| (seed, sums(clients, 60, from + 31 * seed, skill))).collect()
    }

    /// Results with the differences of these runs, without intervals.
    fn results(sums: &[BTreeMap<u64, RunSums>]) -> Vec<BTreeMap<String, MetricResult>> {
        let once = |run: &RunSums| run.scores(&vec![1.0; run.clients.len()]);
        let mean = |runs: &BTreeMap<u64, RunSums>, place: usize| {
            runs.values().map(|run| once(run)[place].value).sum::<f64>() / runs.len() as f64
        };
        let keys = ["accuracy", "ece", "brier", "nll", "aurc"];
        let of = |runs: &BTreeMap<u64, RunSums>| {
            let entry = |(place, key): (usize, &&str)| {
                let mean = mean(runs, place) - mean(&sums[0], place);
                let difference = Some(Difference {
                    mean,
                    relative: None,
                    interval: None,
                    p: None,
                    p_holm: None,
                    bootstrap: None,
                });
                ((*key).to_owned(), MetricResult { difference, ..MetricResult::default() })
            };
            keys.iter().enumerate().map(entry).collect()
        };
        sums.iter().map(of).collect()
    }

    #[test]
    fn a_real_difference_is_found_and_none_is_not() {
        let all = [runs(8, 12, 3, 0.95), runs(8, 12, 1_000, 0.95), runs(8, 12, 77, 0.7)];
        let mut found = results(&all);
        add_intervals(&mut found, &all, Some(0));
        let of = |method: usize, key: &str| found[method][key].difference.unwrap();
        for key in ["accuracy", "nll", "brier", "aurc"] {
            let ([low, high], [far_low, far_high]) =
                (of(1, key).bootstrap.unwrap(), of(2, key).bootstrap.unwrap());
            assert!(low < 0.0 && high > 0.0, "{key}: {low} to {high}");
            assert!(far_low > 0.0 || far_high < 0.0, "{key}: {far_low} to {far_high}");
            assert!(low < of(1, key).mean && of(1, key).mean < high, "{key}");
        }
        // The same again, to the bit.
        let mut again = results(&all);
        add_intervals(&mut again, &all, Some(0));
        assert_eq!(again, found);
        // And whatever else is compared.
        let fewer = [all[0].clone(), all[2].clone()];
        let mut alone = results(&fewer);
        add_intervals(&mut alone, &fewer, Some(0));
        assert_eq!(alone[1], found[2]);
    }

    /// Seeds that are all alike leave the clients' own spread, which is theirs over the root of how many are drawn.
    #[test]
    fn the_width_is_that_of_the_clients() {
        let (a, b) = (sums(40, 50, 11, 0.95), sums(40, 50, 99, 0.95));
        let all = [
            (1..=6).map(|seed| (seed, a.clone())).collect(),
            (1..=6).map(|seed| (seed, b.clone())).collect(),
        ];
        let mut found = results(&all);
        add_intervals(&mut found, &all, Some(0));
        let [low, high] = found[1]["accuracy"].difference.unwrap().bootstrap.unwrap();
        // The spread of clients' differences in accuracy, from each alone.
        let alone = |run: &RunSums, client: usize| {
            let mut weights = vec![0.0; 40];
            weights[client] = 1.0;
            run.scores(&weights)[0].value
        };
        let spread = fedsi_metrics::Summary::of((0..40).map(|client| alone(&b, client) - alone(&a, client)));
        let expected = 2.0 * 1.96 * spread.unwrap().std_dev.unwrap() / (40.0_f64 * 6.0).sqrt();
        assert!(((high - low) / expected - 1.0).abs() < 0.08, "{} is not {expected}", high - low);
    }

    #[test]
    fn what_does_not_pair_has_no_interval() {
        let all = [runs(3, 5, 3, 0.9), runs(2, 5, 5, 0.9), runs(3, 6, 7, 0.9), BTreeMap::new()];
        let mut found = results(&all[..3]);
        found.push(BTreeMap::new());
        add_intervals(&mut found, &all, Some(0));
        assert!(
            found[1..].iter().flat_map(BTreeMap::values).all(|one| one
                .difference
                .unwrap()
                .bootstrap
                .is_none())
        );
        let one = [runs(1, 5, 3, 0.9), runs(1, 5, 5, 0.9)];
        let mut found = results(&one);
        add_intervals(&mut found, &one, Some(0));
        assert_eq!(found[1]["nll"].difference.unwrap().bootstrap, None);
    }
}
