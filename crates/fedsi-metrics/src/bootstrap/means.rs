//! Means over rows of clients, and how far new ones are from known ones of the same clients.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{FEWEST_CLIENTS, Plan, Resampled, around};
use crate::normal::HALF_WIDTH_95;
use crate::paired::student_half_width;
use crate::proportion::wilson;

/// Of fewer rows on either side a difference has no interval.
const FEWEST_ROWS: usize = 10;

/// A figure and its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The ends of the interval.
    pub interval: [f64; 2],
}

/// What values a mean is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanOf {
    /// 0 or 1, or a share between: intervals are never narrower than Wilson's.
    Shares,
    /// Numbers that are not negative.
    Positive,
    /// Any numbers.
    Numbers,
}

impl MeanOf {
    const fn range(self) -> Range<f64> {
        match self {
            Self::Shares => 0.0..1.0,
            Self::Positive => 0.0..f64::MAX,
            Self::Numbers => f64::MIN..f64::MAX,
        }
    }

    /// Wilson's interval as deviations from a share of so many rows.
    fn least(self, mean: f64, rows: f64) -> [f64; 2] {
        if self != Self::Shares {
            return [0.0; 2];
        }
        let trials = (rows.round() as usize).max(1);
        let successes = ((mean * trials as f64).round() as usize).min(trials);
        let own = successes as f64 / trials as f64;
        wilson(successes, trials).map_or([0.0; 2], |ends| ends.map(|end| end - own))
    }
}

/// Values of rows, and the client of each.
pub type OwnedValues<'a> = (&'a [f64], &'a [usize]);

/// New rows beside known ones, of the clients that have both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanComparison {
    /// What was drawn.
    pub resampled: Resampled,
    /// New rows and known rows of these clients.
    pub rows: [usize; 2],
    /// The mean of the new rows.
    pub new: Estimate,
    /// The mean of the known rows at the new rows' mix of clients: each client's own mean, weighted by its new rows.
    pub known: Estimate,
    /// The first less the second.
    pub difference: Estimate,
}

/// The mean of values and its interval, by drawing clients, or rows where clients are few. `None` of fewer than two rows, or
/// of another number of clients than of values. Costs a thousand passes over clients, or over at most 500 parts of each.
pub fn mean_interval((values, owners): OwnedValues<'_>, of: MeanOf) -> Option<Estimate> {
    if values.len() != owners.len() {
        return None;
    }
    let mut rows: Vec<(usize, f64)> = owners.iter().copied().zip(values.iter().copied()).collect();
    rows.sort_by_key(|(owner, _)| *owner);
    let owners: Vec<usize> = rows.iter().map(|(owner, _)| *owner).collect();
    let plan = Plan::new(&owners)?;
    let parts = part_sums(&plan, rows.iter().map(|(_, value)| *value));
    let mean = |weights: &[f64]| {
        let sums = parts.iter().zip(weights);
        let (count, sum) = sums.fold((0.0, 0.0), |(count, sum), (part, weight)| {
            (count + weight * part.0, sum + weight * part.1)
        });
        [sum / count]
    };
    let [value] = mean(&vec![1.0; parts.len()]);
    let [deviations] = plan.deviations(mean);
    let interval = around(value, deviations, of.least(value, rows.len() as f64), of.range())?;
    Some(Estimate { value, interval })
}

/// The number and the sum of each part's values.
fn part_sums(plan: &Plan, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let mut parts = vec![(0.0, 0.0); plan.client_of.len()];
    for (&part, value) in plan.part_of.iter().zip(values) {
        parts[part].0 += 1.0;
        parts[part].1 += value;
    }
    parts
}

/// Compares new rows with known ones of the same clients, like with like: a client that sends more rows than before changes
/// nothing. Clients are drawn, or rows within each where clients are few. The interval of the difference is at least as wide
/// as one from the spread of each client's new and known rows together, which few new rows alone may not show, and of shares
/// as Newcombe's from Wilson's. `None` where the clients that have both have fewer than ten new or ten known rows, or of
/// another number of clients than of values.
pub fn compare_means(new: OwnedValues<'_>, known: OwnedValues<'_>, of: MeanOf) -> Option<MeanComparison> {
    let mut clients: BTreeMap<usize, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, (values, owners)) in [new, known].into_iter().enumerate() {
        if values.len() != owners.len() {
            return None;
        }
        for (&value, &owner) in values.iter().zip(owners) {
            clients.entry(owner).or_default()[side].push(value);
        }
    }
    let clients: Vec<[Vec<f64>; 2]> =
        clients.into_values().filter(|sides| sides.iter().all(|side| !side.is_empty())).collect();
    let rows = [0, 1].map(|side| clients.iter().map(|sides| sides[side].len()).sum::<usize>());
    if rows.iter().any(|&rows| rows < FEWEST_ROWS) {
        return None;
    }
    let (resampled, deviations) = deviations(&clients)?;
    // Each client's share of the new rows.
    let share = |sides: &[Vec<f64>; 2]| sides[0].len() as f64 / rows[0] as f64;
    let mean = |side: usize| clients.iter().map(|sides| share(sides) * mean(&sides[side])).sum::<f64>();
    let (new, known) = (mean(0), mean(1));
    let freedom = (rows[0] + rows[1] - clients.len()) as f64;
    let spread: f64 = clients.iter().map(|sides| share(sides).powi(2) * variance_of_difference(sides)).sum();
    let half = student_half_width(freedom) * spread.sqrt();
    // So many rows would leave the weighted mean as uncertain.
    let weights: f64 = clients.iter().map(|sides| share(sides).powi(2) / sides[1].len() as f64).sum();
    let (own, other) = (of.least(new, rows[0] as f64), of.least(known, 1.0 / weights));
    let least = [-half.max(own[0].hypot(other[1])), half.max(own[1].hypot(other[0]))];
    let range = if of == MeanOf::Shares { -1.0..1.0 } else { f64::MIN..f64::MAX };
    let estimate = |value: f64, place: usize, least: [f64; 2], range: Range<f64>| {
        Some(Estimate { value, interval: around(value, deviations[place], least, range)? })
    };
    Some(MeanComparison {
        resampled,
        rows,
        new: estimate(new, 0, own, of.range())?,
        known: estimate(known, 1, other, of.range())?,
        difference: estimate(new - known, 2, least, range)?,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance of the difference of a client's two means, were all its rows drawn alike.
fn variance_of_difference(sides: &[Vec<f64>; 2]) -> f64 {
    let all = || sides.iter().flatten();
    let [m, n] = [0, 1].map(|side| sides[side].len() as f64);
    let centre = all().sum::<f64>() / (m + n);
    let squares: f64 = all().map(|value| (value - centre).powi(2)).sum();
    squares / (m + n - 1.0) * (1.0 / m + 1.0 / n)
}

/// How far the means of new rows, of known rows at their mix of clients, and their difference vary.
fn deviations(clients: &[[Vec<f64>; 2]]) -> Option<(Resampled, [Option<[f64; 2]>; 3])> {
    let sizes: Vec<f64> = clients.iter().map(|sides| sides[0].len() as f64).collect();
    let combine = |sums: &mut dyn Iterator<Item = (f64, [f64; 2])>| {
        let mut total = [0.0; 3];
        for (weight, [new, known]) in sums {
            total[0] += weight;
            total[1] += weight * new;
            total[2] += weight * known;
        }
        let [new, known] = [total[1] / total[0], total[2] / total[0]];
        [new, known, new - known]
    };
    if clients.len() >= FEWEST_CLIENTS {
        let means: Vec<[f64; 2]> = clients.iter().map(|sides| [mean(&sides[0]), mean(&sides[1])]).collect();
        let plan = Plan::with(&(0..clients.len()).collect::<Vec<_>>(), Resampled::Clients)?;
        let score = |weights: &[f64]| {
            let times = weights.iter().zip(&sizes).map(|(times, size)| times * size);
            combine(&mut times.zip(means.iter().copied()))
        };
        return Some((Resampled::Clients, plan.deviations(score)));
    }
    // Strata: the new rows of the first client, its known ones, the new rows of the second, and so on.
    let strata: Vec<&Vec<f64>> = clients.iter().flatten().collect();
    let owners: Vec<usize> =
        strata.iter().enumerate().flat_map(|(at, rows)| std::iter::repeat_n(at, rows.len())).collect();
    let plan = Plan::with(&owners, Resampled::Rows)?;
    let parts = part_sums(&plan, strata.iter().flat_map(|rows| rows.iter().copied()));
    let score = |weights: &[f64]| {
        let mut sums = vec![(0.0, 0.0); strata.len()];
        for ((part, &stratum), weight) in parts.iter().zip(&plan.client_of).zip(weights) {
            sums[stratum].0 += weight * part.0;
            sums[stratum].1 += weight * part.1;
        }
        let means = sums.chunks(2).map(|pair| [pair[0].1 / pair[0].0, pair[1].1 / pair[1].0]);
        combine(&mut sizes.iter().copied().zip(means))
    };
    // Each stratum has a mean of its own, which its rows are too near to.
    let (rows, freedom) = (owners.len() as f64, (owners.len() - strata.len()) as f64);
    if freedom < 1.0 {
        return None;
    }
    let widening = student_half_width(freedom) / HALF_WIDTH_95 * (rows / freedom).sqrt();
    Some((Resampled::Rows, plan.widened(widening, score)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_random::{Purpose, Streams};
    use rand::RngExt as _;

    fn leaves_out_zero(found: &Estimate) -> bool {
        found.interval[0] > 0.0 || found.interval[1] < 0.0
    }

    fn shares(right: usize, rows: usize) -> Vec<f64> {
        (0..rows).map(|row| f64::from(u8::from(row < right))).collect()
    }

    /// Ten of ten right beside 85 of 100: nothing is said, of accuracy or of a score whose large values are rare.
    #[test]
    fn ten_of_ten_right_say_nothing() {
        let (new, known) = (shares(10, 10), shares(85, 100));
        let found = compare_means((&new, &[0; 10]), (&known, &[0; 100]), MeanOf::Shares).unwrap();
        assert_eq!((found.new.value, found.known.value, found.rows), (1.0, 0.85, [10, 100]));
        assert!(found.new.interval[0] < 0.75 && !leaves_out_zero(&found.difference), "{found:?}");
        let scores = |values: &[f64]| {
            values.iter().map(|right| if *right > 0.5 { 0.05 } else { 2.0 }).collect::<Vec<_>>()
        };
        let (new, known) = (scores(&new), scores(&known));
        let found = compare_means((&new, &[0; 10]), (&known, &[0; 100]), MeanOf::Positive).unwrap();
        assert!(!leaves_out_zero(&found.difference), "{found:?}");
        let few = compare_means((&new[..9], &[0; 9]), (&known, &[0; 100]), MeanOf::Positive);
        assert_eq!(few, None, "too few rows");
    }

    /// More rows of the client that is always worse are no change.
    #[test]
    fn another_mix_of_clients_is_no_change() {
        for clients in [2, 6] {
            let rows = |counts: [usize; 2]| {
                let (mut values, mut owners) = (Vec::new(), Vec::new());
                for client in 0..clients {
                    let count = counts[client % 2];
                    let right = if client % 2 == 0 { count * 9 / 10 } else { count / 2 };
                    values.extend(shares(right, count));
                    owners.extend(std::iter::repeat_n(client, count));
                }
                (values, owners)
            };
            let (new, known) = (rows([20, 180]), rows([180, 20]));
            let found = compare_means((&new.0, &new.1), (&known.0, &known.1), MeanOf::Shares).unwrap();
            // 0.1 * 0.9 + 0.9 * 0.5 of both.
            assert!(
                (found.new.value - 0.54).abs() < 1e-12 && found.difference.value.abs() < 1e-12,
                "{found:?}"
            );
            assert!(!leaves_out_zero(&found.difference));
            assert!((mean(&known.0) - 0.86).abs() < 1e-12, "pooled they differ");
        }
    }

    #[test]
    fn a_clear_difference_is_seen() {
        let (new, known) = (shares(30, 60), shares(90, 100));
        let found = compare_means((&new, &[3; 60]), (&known, &[3; 100]), MeanOf::Shares).unwrap();
        assert!(
            (found.difference.value + 0.4).abs() < 1e-12 && found.difference.interval[1] < -0.2,
            "{found:?}"
        );
        let none = compare_means((&new, &[3; 60]), (&known, &[4; 100]), MeanOf::Shares);
        assert_eq!(none, None, "no client has both");
        assert_eq!(compare_means((&new, &[3]), (&known, &[4; 100]), MeanOf::Shares), None);
    }

    /// Of 200 draws of equal clients about one in twenty leaves out 0.
    #[test]
    fn alarms_keep_the_level() {
        for (clients, each) in [(1, 40), (3, 15), (8, 12)] {
            let mut alarms = 0;
            for repetition in 0..200 {
                let mut rng = Streams::new(3).stream(Purpose::Resampling, 9, repetition);
                let mut rows = |each: usize| -> (Vec<f64>, Vec<usize>) {
                    let owner = (0..clients).flat_map(|client| std::iter::repeat_n(client, each));
                    // A score with a long tail: -ln of a number between 0 and 1.
                    owner.map(|client| (-(1.0 - rng.random::<f64>()).ln() + client as f64, client)).unzip()
                };
                let (new, known) = (rows(each), rows(2 * each));
                let found = compare_means((&new.0, &new.1), (&known.0, &known.1), MeanOf::Positive).unwrap();
                alarms += usize::from(leaves_out_zero(&found.difference));
            }
            assert!((1..=20).contains(&alarms), "{clients} clients: {alarms} of 200");
        }
    }

    #[test]
    fn means_hold_their_value() {
        let values = shares(13, 13);
        let found = mean_interval((&values, &[0; 13]), MeanOf::Shares).unwrap();
        assert_eq!((found.value, found.interval), (1.0, wilson(13, 13).unwrap()));
        // 0.8 +- 1.96 sqrt(0.16 / 400).
        let found = mean_interval((&shares(320, 400), &[0; 400]), MeanOf::Shares).unwrap();
        assert!(
            (found.interval[0] - 0.76).abs() < 0.01 && (found.interval[1] - 0.84).abs() < 0.01,
            "{found:?}"
        );
        assert_eq!(mean_interval((&[1.0], &[0]), MeanOf::Numbers), None);
    }
}
