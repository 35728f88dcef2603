//! Which methods can be ranked: those that were scored wherever any of them was.
//!
//! Means over other seeds or other clients do not compare. A method that lacks a seed or a client which another method was
//! scored on is not ranked, tested or counted against others at all. Ranking all methods on what they have in common would
//! not do: a method that fails on the clients it does worst on would rank higher for it.

use std::collections::BTreeSet;

use fedsi_run::{ClientScores, Summary};
use serde::{Deserialize, Serialize};

/// Clients named one by one in a reason.
const MAX_NAMED: usize = 3;

/// What a method's scores are of, and whether they can be ranked. Comparisons of 0.1 do not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Clients that were scored, all its complete runs together.
    #[serde(default)]
    pub scored_clients: Option<usize>,
    /// Clients with test data, all its complete runs together.
    #[serde(default)]
    pub tested_clients: Option<usize>,
    /// Accuracy where a client that could not be scored counts as 0, mean over its complete runs; absent of a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_all: Option<f64>,
    /// Why it has no rank; null where it has.
    #[serde(default)]
    pub unranked: Option<String>,
}

impl Standing {
    /// `18 of 24` where a method was not scored on all clients with test data.
    #[must_use]
    pub fn shortfall(&self) -> Option<(usize, usize)> {
        let (scored, tested) = (self.scored_clients?, self.tested_clients?);
        (scored < tested).then_some((scored, tested))
    }
}

/// A seed, and a client that was scored with it.
type Case = (u64, usize);

/// How each method stands; `methods` has each method's complete runs.
#[must_use]
pub fn standings(methods: &[Vec<Summary>]) -> Vec<Standing> {
    let seeds: BTreeSet<u64> = methods.iter().flatten().map(|run| run.seed).collect();
    let all: BTreeSet<Case> = methods.iter().flat_map(|runs| scored(runs)).collect();
    let standing = |runs: &Vec<Summary>| {
        let coverages: Vec<_> = runs.iter().map(Summary::coverage).collect();
        let accuracy = coverages.iter().filter_map(|coverage| coverage.accuracy_all);
        Standing {
            scored_clients: Some(coverages.iter().map(|coverage| coverage.scored_clients).sum()),
            tested_clients: Some(coverages.iter().map(|coverage| coverage.tested_clients).sum()),
            accuracy_all: fedsi_metrics::Summary::of(accuracy).map(|spread| spread.mean),
            unranked: missing_seeds(runs, &seeds).or_else(|| missing_clients(runs, &all)),
        }
    };
    methods.iter().map(standing).collect()
}

fn is_scored(client: &&ClientScores) -> bool {
    client.samples > 0 && client.scores.is_scored()
}

fn scored(runs: &[Summary]) -> BTreeSet<Case> {
    let of = |run: &Summary| -> Vec<Case> {
        run.clients.iter().filter(is_scored).map(|client| (run.seed, client.id)).collect()
    };
    runs.iter().flat_map(of).collect()
}

fn missing_seeds(runs: &[Summary], seeds: &BTreeSet<u64>) -> Option<String> {
    let has = |seed: &&u64| runs.iter().any(|run| run.seed == **seed);
    let missing: Vec<String> = seeds.iter().filter(|seed| !has(seed)).map(u64::to_string).collect();
    match missing.as_slice() {
        [] => None,
        [one] => Some(format!("it has no complete run with seed {one}")),
        several => Some(format!("it has no complete runs with seeds {}", several.join(", "))),
    }
}

fn missing_clients(runs: &[Summary], all: &BTreeSet<Case>) -> Option<String> {
    let own = scored(runs);
    let missing: Vec<Case> = all.difference(&own).copied().collect();
    let (seed, _) = *missing.first()?;
    let clients: Vec<usize> = missing.iter().filter(|case| case.0 == seed).map(|case| case.1).collect();
    let run = runs.iter().find(|run| run.seed == seed);
    let label = |id: &usize| {
        let found = run.and_then(|run| run.clients.iter().find(|client| client.id == *id));
        found.map_or_else(|| id.to_string(), ClientScores::label)
    };
    let mut names: Vec<String> = clients.iter().take(MAX_NAMED).map(label).collect();
    if clients.len() > MAX_NAMED {
        names.push(format!("{} more", clients.len() - MAX_NAMED));
    }
    let plural = if clients.len() == 1 { "" } else { "s" };
    let seeds: BTreeSet<u64> = missing.iter().map(|case| case.0).collect();
    let more = match seeds.len() - 1 {
        0 => String::new(),
        1 => "; the same with 1 other seed".to_owned(),
        others => format!("; the same with {others} other seeds"),
    };
    Some(format!(
        "with seed {seed} it was not scored on {} client{plural} that another method was scored on ({}){more}",
        clients.len(),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::{run, scores};
    use crate::statistics::{metric_results, metrics};

    /// A run whose clients have these accuracies; none: not scored.
    fn with_clients(seed: u64, clients: &[Option<f64>]) -> Summary {
        let found: Vec<f64> = clients.iter().flatten().copied().collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let filled: Vec<f64> = clients.iter().map(|score| score.unwrap_or(f64::NAN)).collect();
        run(seed, scores(mean, 1.0 - mean), &filled)
    }

    #[test]
    fn dropping_hard_clients_never_improves_a_standing() {
        let honest = || vec![with_clients(1, &[Some(0.9), Some(0.9), Some(0.2)])];
        let worse = || vec![with_clients(1, &[Some(0.8), Some(0.8), Some(0.1)])];
        // The same method with the hard client dropped: the best mean of all.
        let dropped = || vec![with_clients(1, &[Some(0.8), Some(0.8), None])];
        let rank = |methods: &[Vec<Summary>]| -> Vec<Option<usize>> {
            let found = metric_results(&metrics(&methods[0][0].scores), methods, None);
            found.iter().map(|results| results["accuracy"].rank).collect()
        };
        assert_eq!(rank(&[honest(), worse()]), [Some(1), Some(2)]);
        assert_eq!(rank(&[honest(), dropped()]), [Some(1), None]);
        assert_eq!(rank(&[dropped(), worse()]), [None, Some(1)], "not even with the best mean");
        // Scored on the same clients, they compare.
        assert_eq!(rank(&[dropped(), dropped()]), [Some(1), Some(1)]);
    }

    #[test]
    fn reasons_name_seeds_and_clients() {
        let all = [Some(0.9); 6];
        let mut few = all;
        few[1..5].fill(None);
        let methods = [
            vec![with_clients(1, &all), with_clients(2, &all)],
            vec![with_clients(1, &few), with_clients(2, &few)],
            vec![with_clients(2, &all)],
        ];
        let [first, second, third] = &standings(&methods)[..] else { panic!("three methods") };
        assert_eq!(
            (first.scored_clients, first.tested_clients, &first.unranked),
            (Some(12), Some(12), &None)
        );
        assert_eq!((first.shortfall(), second.shortfall()), (None, Some((4, 12))));
        assert!((second.accuracy_all.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(
            second.unranked.as_deref().unwrap(),
            "with seed 1 it was not scored on 4 clients that another method was scored on (1, 2, 3, 1 more); the same \
             with 1 other seed"
        );
        assert_eq!(third.unranked.as_deref(), Some("it has no complete run with seed 1"));
    }

    #[test]
    fn as_many_runs_of_other_seeds_do_not_compare() {
        let methods = [vec![with_clients(1, &[Some(0.9)])], vec![with_clients(2, &[Some(0.8)])]];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods, None);
        assert_eq!([found[0]["accuracy"].rank, found[1]["accuracy"].rank], [None, None]);
    }
}
