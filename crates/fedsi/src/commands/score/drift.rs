//! Whether new rows are like those that a run was tested on: tests of their strangeness, their classes and their columns.

use std::collections::BTreeMap;

use fedsi_metrics::{auroc, holm, mid_ranks};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;
use serde::Serialize;

/// A difference is named where its adjusted p is below this.
pub(super) const LEVEL: f64 = 0.05;

/// Permutations of a test: of many rows fewer.
const PERMUTATIONS: usize = 9_999;
const FEWEST_PERMUTATIONS: usize = 999;
const MOST_ROWS: usize = 40_000_000;

/// Streams of draws.
const STRANGENESS: u64 = 2;
const CLASSES: u64 = 3;

/// One test of whether something has changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DriftTest {
    /// strangeness, classes, or a column's name.
    pub(super) of: String,
    /// What is compared.
    pub(super) what: &'static str,
    /// How likely so large a difference would be by chance.
    pub(super) p: f64,
    /// The same after Holm's correction for all tests.
    pub(super) adjusted_p: f64,
    /// What was found, in words.
    pub(super) found: String,
}

impl DriftTest {
    pub(super) fn has_drifted(&self) -> bool {
        self.adjusted_p < LEVEL
    }
}

/// Tests with Holm's correction for how many there are.
pub(super) fn corrected(mut tests: Vec<DriftTest>) -> Vec<DriftTest> {
    let adjusted = holm(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
    for (test, adjusted) in tests.iter_mut().zip(adjusted) {
        test.adjusted_p = adjusted;
    }
    tests
}

/// Numbers, and the client of each.
pub(super) type Owned<'a, T> = (&'a [T], &'a [Option<usize>]);

fn permutations(rows: usize) -> usize {
    (MOST_ROWS / rows.max(1)).clamp(FEWEST_PERMUTATIONS, PERMUTATIONS)
}

/// Draws which rows are called new, as many of each client's as are: calls `each` with them, permutation by permutation.
fn permute(owners: &[Option<usize>], new: usize, stream: u64, seed: u64, mut each: impl FnMut(&[usize])) {
    // Rows 0 to `new` are the new ones: of each client's, as many as these.
    let mut strata = strata(owners);
    let quotas: Vec<usize> =
        strata.iter().map(|rows| rows.iter().filter(|&&row| row < new).count()).collect();
    let mut chosen = Vec::with_capacity(new);
    for draw in 0..permutations(owners.len()) {
        let mut rng = Streams::new(seed).stream(Purpose::Resampling, stream, draw as u64);
        chosen.clear();
        for (rows, &quota) in strata.iter_mut().zip(&quotas) {
            // The first few of a shuffled list.
            for place in 0..quota {
                let other = rng.random_range(place..rows.len());
                rows.swap(place, other);
            }
            chosen.extend_from_slice(&rows[..quota]);
        }
        each(&chosen);
    }
}

/// Whether new rows are stranger, or less strange, than test rows: the probability that one is stranger than the other
/// (AUROC), tested by permutations within clients. None where either is unknown.
pub(super) fn strangeness(new: Owned<'_, f64>, test: Owned<'_, f64>, seed: u64) -> Option<DriftTest> {
    let mut values: Vec<(f64, Option<usize>, bool)> = Vec::new();
    for ((scores, owners), is_new) in [(new, true), (test, false)] {
        let known = scores.iter().zip(owners).filter(|(score, _)| score.is_finite());
        values.extend(known.map(|(&score, &owner)| (score, owner, is_new)));
    }
    // New rows first, which `permute` expects.
    let count = values.iter().filter(|(.., is_new)| *is_new).count();
    let scores: Vec<f64> = values.iter().map(|(score, ..)| *score).collect();
    let owners: Vec<Option<usize>> = values.iter().map(|(_, owner, _)| *owner).collect();
    let (own, others) = scores.split_at(count);
    let found = auroc(others, own).ok()??;
    let ranks = mid_ranks(&scores);
    let sum: f64 = ranks[..count].iter().sum();
    // Where clients have both kinds of rows, the sum of ranks varies around its mean over permutations.
    let mut sums = Vec::new();
    permute(&owners, count, STRANGENESS, seed, |rows| {
        sums.push(rows.iter().map(|&row| ranks[row]).sum::<f64>());
    });
    let mean = sums.iter().sum::<f64>() / sums.len() as f64;
    let p = p_value(sums.iter().map(|one| (one - mean).abs()), (sum - mean).abs());
    let words = if found > 0.5 { "stranger" } else { "less strange" };
    let found =
        format!("a new row is {words} than a test row with probability {:.2}", found.max(1.0 - found));
    Some(DriftTest { of: "strangeness".to_owned(), what: "strangeness of rows", p, adjusted_p: p, found })
}

/// The share of permutations at least as extreme, this one among them. A hair less counts as equal.
fn p_value(permuted: impl Iterator<Item = f64>, found: f64) -> f64 {
    let (mut extreme, mut all) = (1.0, 1.0);
    for value in permuted {
        all += 1.0;
        extreme += f64::from(u8::from(value >= found * (1.0 - 1e-12)));
    }
    extreme / all
}

/// Whether classes come in other shares than among test rows: Pearson's statistic, tested by permutations within clients.
pub(super) fn classes(
    new: Owned<'_, u32>,
    test: Owned<'_, u32>,
    names: &dyn Fn(usize) -> String,
    seed: u64,
) -> Option<DriftTest> {
    let labels: Vec<usize> = new.0.iter().chain(test.0).map(|&label| label as usize).collect();
    let owners: Vec<Option<usize>> = new.1.iter().chain(test.1).copied().collect();
    let (count, classes) = (new.0.len(), labels.iter().max()? + 1);
    if count == 0 || test.0.is_empty() || classes < 2 {
        return None;
    }
    // What is expected of each class within each client: its share of all rows times the client's new rows.
    let mut expected = vec![0.0; classes];
    for rows in strata(&owners) {
        let own = rows.iter().filter(|&&row| row < count).count() as f64 / rows.len() as f64;
        rows.iter().for_each(|&row| expected[labels[row]] += own);
    }
    let counts = |rows: &mut dyn Iterator<Item = usize>| {
        let mut counts = vec![0.0; classes];
        rows.for_each(|row| counts[labels[row]] += 1.0);
        counts
    };
    let statistic = |counts: &[f64]| -> f64 {
        let terms = counts.iter().zip(&expected).filter(|(_, expected)| **expected > 0.0);
        terms.map(|(count, expected)| (count - expected).powi(2) / expected).sum()
    };
    let own = counts(&mut (0..count));
    let found = statistic(&own);
    let mut permuted = Vec::new();
    permute(&owners, count, CLASSES, seed, |rows| {
        permuted.push(statistic(&counts(&mut rows.iter().copied())));
    });
    let p = p_value(permuted.into_iter(), found);
    let gap = |class: &usize| (own[*class] - expected[*class]).abs();
    let most = (0..classes).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let known = test.0.iter().filter(|&&label| label as usize == most).count();
    let found = format!(
        "{}: {:.1}% of new rows, {:.1}% of test rows",
        names(most),
        100.0 * own[most] / count as f64,
        100.0 * known as f64 / test.0.len() as f64
    );
    Some(DriftTest { of: "classes".to_owned(), what: "shares of classes", p, adjusted_p: p, found })
}

/// The rows of each client.
fn strata(owners: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut found: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (row, &owner) in owners.iter().enumerate() {
        found.entry(owner).or_default().push(row);
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [Option<usize>; 400] = [Some(0); 400];

    fn owned<T>(values: &[T]) -> Owned<'_, T> {
        (values, &NOBODY[..values.len()])
    }

    #[test]
    fn strangeness_that_moves_is_seen_and_chance_is_not() {
        let usual: Vec<f64> = (0..200).map(|row| f64::from(row * 37 % 200) / 100.0).collect();
        let same: Vec<f64> = (0..100).map(|row| f64::from(row * 59 % 199) / 100.0).collect();
        let moved: Vec<f64> = same.iter().map(|value| value + 0.6).collect();
        let test = strangeness(owned(&same), owned(&usual), 1).unwrap();
        assert!(test.p > 0.05, "{test:?}");
        let test = strangeness(owned(&moved), owned(&usual), 1).unwrap();
        assert!(test.p < 0.001 && test.found.contains("stranger than"), "{test:?}");
        assert_eq!(strangeness(owned(&[f64::NAN]), owned(&usual), 1), None, "nothing is known of new rows");
    }

    /// A client that is stranger to its model is no drift, where more of its rows come.
    #[test]
    fn another_mix_of_clients_is_no_drift() {
        let (mut test, mut test_owners) = (Vec::new(), Vec::new());
        let (mut new, mut new_owners) = (Vec::new(), Vec::new());
        for row in 0..100 {
            let client = usize::from(row % 10 == 0);
            test.push(5.0 * client as f64 + f64::from(row * 37 % 100) / 100.0);
            test_owners.push(Some(client));
            let client = usize::from(row % 2 == 0);
            new.push(5.0 * client as f64 + f64::from(row * 59 % 101) / 100.0);
            new_owners.push(Some(client));
        }
        let found = strangeness((&new, &new_owners), (&test, &test_owners), 1).unwrap();
        assert!(found.p > 0.05, "{found:?}");
    }

    #[test]
    fn classes_in_other_shares_are_seen() {
        let usual: Vec<u32> = (0..200).map(|row| u32::from(row % 10 == 0)).collect();
        let more: Vec<u32> = (0..100).map(|row| u32::from(row % 3 == 0)).collect();
        let name = |class: usize| ["well", "sick"][class].to_owned();
        let same = classes(owned(&usual[..100]), owned(&usual), &name, 1).unwrap();
        assert!(same.p > 0.9, "{same:?}");
        let found = classes(owned(&more), owned(&usual), &name, 1).unwrap();
        assert!(found.p < 0.001 && found.found.contains("% of new rows"), "{found:?}");
    }

    #[test]
    fn several_tests_are_corrected() {
        let test = |p: f64| DriftTest {
            of: "x".to_owned(),
            what: "missing values",
            p,
            adjusted_p: p,
            found: String::new(),
        };
        // 0.036 is no news among three tests.
        let tests = corrected([0.001, 0.5, 0.036].map(test).into());
        assert_eq!(tests.iter().map(DriftTest::has_drifted).collect::<Vec<_>>(), [true, false, false]);
        assert!((tests[0].adjusted_p - 0.003).abs() < 1e-12 && (tests[2].adjusted_p - 0.072).abs() < 1e-12);
    }
}
