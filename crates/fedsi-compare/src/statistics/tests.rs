//! Ranks, differences and tests, worked by hand.

use super::*;
use fedsi_fl::scores::Scores;
use fedsi_fl::wire::Traffic;
use fedsi_run::{ClientScores, Seconds};

pub(crate) fn scores(accuracy: f64, nll: f64) -> Scores {
    let rest = Some(0.1);
    Scores::Classification {
        accuracy: Some(accuracy),
        ece: rest,
        mce: rest,
        brier: rest,
        nll: Some(nll),
        mce_1pct: None,
        aurc: rest,
        ece_floor: None,
        ece_floor_std: None,
        balanced_accuracy: rest,
    }
}

/// A run with these scores, and clients with these accuracies.
pub(crate) fn run(seed: u64, scores_of_run: Scores, clients: &[f64]) -> Summary {
    let client = |(id, &accuracy): (usize, &f64)| ClientScores {
        id,
        name: None,
        samples: 10,
        problem: None,
        novel: false,
        scores: scores(accuracy, 0.5),
    };
    Summary {
        method: String::new(),
        dataset: "digits".to_owned(),
        size: "small".to_owned(),
        seed,
        rounds: 2,
        scores: scores_of_run,
        coverage: None,
        clients: clients.iter().enumerate().map(client).collect(),
        classes: Vec::new(),
        details: fedsi_run::ScoreDetails::default(),
        posterior: None,
        modes: None,
        calibration: fedsi_fl::calibration::Calibration::default(),
        seconds: Seconds { total: 4.0, ..Seconds::default() },
        bytes: Traffic { up: 1_000_000, down: 2_000_000 },
        trouble: fedsi_fl::coordinator::Tally::default(),
        epsilon: None,
        delta: None,
        peak_rss_bytes: None,
        device: None,
        cpu: None,
        version: "0".to_owned(),
        run: None,
        files: BTreeMap::new(),
    }
}

fn close(found: Option<f64>, expected: f64) {
    assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} is not {expected}");
}

/// Every method's results by all metrics, against the method at this place.
fn results(methods: &[Vec<Summary>], reference: usize) -> Vec<BTreeMap<String, MetricResult>> {
    metric_results(&metrics(&methods[1][0].scores), methods, Some(reference))
}

#[test]
fn worked_by_hand() {
    // Accuracies .91 .93 .95 .97 .99 (mean .95, std sqrt(.001)) against .90 .91 .92 .93 .94 (mean .92): differences
    // .01 to .05, so t = 3 sqrt(2) with four degrees, p = 1 - x (3 - x^2) / 2 with x = sqrt(18/22).
    let steps = [1, 2, 3, 4, 5];
    let worse = |seed: u64| run(seed, scores(0.89 + 0.01 * seed as f64, 0.3), &[0.8, 0.9]);
    let better = |seed: u64| run(seed, scores(0.89 + 0.02 * seed as f64, 0.4), &[0.8, 0.7]);
    let methods = [steps.map(worse).to_vec(), steps.map(better).to_vec()];
    let found = results(&methods, 1);
    let (worse, better) = (&found[0]["accuracy"], &found[1]["accuracy"]);
    assert_eq!((worse.rank, better.rank, better.difference), (Some(2), Some(1), None));
    close(better.mean, 0.95);
    close(better.std, 0.001_f64.sqrt());
    let difference = worse.difference.unwrap();
    close(Some(difference.mean), -0.03);
    close(difference.relative, -0.03 / 0.95);
    let x = (18.0_f64 / 22.0).sqrt();
    let p = 1.0 - x * (3.0 - x * x) / 2.0;
    assert!((difference.p.unwrap() - p).abs() < 1e-9, "{worse:?}");
    assert_eq!(difference.p_holm, difference.p, "one test needs no correction");
    // The standard error is sqrt(.00025 / 5), the quantile 2.776.
    let half = 2.776_445_105 * 0.000_05_f64.sqrt();
    let [low, high] = difference.interval.unwrap();
    assert!((low + 0.03 + half).abs() < 1e-9 && (high + 0.03 - half).abs() < 1e-9, "{low} to {high}");
    assert_eq!(worse.against_reference, WinLossTie { wins: 5, losses: 0, ties: 5 });
    // NLL: lower is better. The same difference on every seed has no variance, so no test.
    let nll = [0, 1].map(|method: usize| &found[method]["nll"]);
    assert_eq!((nll[0].rank, nll[1].rank), (Some(1), Some(2)));
    let nll = nll[0].difference.unwrap();
    close(Some(nll.mean), -0.1);
    assert_eq!((nll.interval, nll.p, nll.p_holm), (None, None, None));
    // ECE: the same everywhere; both are best.
    assert_eq!((found[0]["ece"].rank, found[1]["ece"].rank), (Some(1), Some(1)));
    // Nothing scored.
    assert_eq!((found[0]["mce_1pct"].mean, found[0]["mce_1pct"].rank), (None, None));
}

/// The reference is what was named, whatever came out best.
#[test]
fn the_reference_need_not_be_the_best_and_tests_are_corrected() {
    let method = |step: f64| -> Vec<Summary> {
        let wave = |seed: u64| 0.001 * ((seed * seed) % 7) as f64 * step;
        (1..=6_u64).map(|seed| run(seed, scores(0.8 + 0.01 * step + wave(seed), 0.3), &[])).collect()
    };
    let methods = [method(1.0), method(2.0), method(3.0), method(4.0)];
    let found = results(&methods, 1);
    let of = |place: usize| found[place]["accuracy"].difference;
    assert!(of(1).is_none() && of(0).unwrap().mean < 0.0 && of(3).unwrap().mean > 0.0);
    let p = [0, 2, 3].map(|place| of(place).unwrap().p.unwrap());
    let corrected = [0, 2, 3].map(|place| of(place).unwrap().p_holm.unwrap());
    assert_eq!(corrected.to_vec(), holm(&p));
    assert!(corrected.iter().zip(p).all(|(corrected, p)| *corrected >= p) && corrected != p);
    // Only what is tested has a difference.
    assert_eq!(found[0]["mce"].difference, None);
    let none = metric_results(&metrics(&methods[0][0].scores), &methods, None);
    assert!(none.iter().all(|method| method["accuracy"].difference.is_none()));
}

#[test]
fn ece_is_tested_against_its_floor() {
    let with = |seed: u64, ece: f64, floor: Option<f64>| {
        let Scores::Classification { accuracy, mce, brier, nll, mce_1pct, aurc, .. } = scores(0.9, 0.3)
        else {
            unreachable!()
        };
        let balanced_accuracy = None;
        let own = Scores::Classification {
            accuracy,
            ece: Some(ece),
            mce,
            brier,
            nll,
            mce_1pct,
            aurc,
            ece_floor: floor,
            ece_floor_std: floor,
            balanced_accuracy,
        };
        run(seed, own, &[])
    };
    // Above the floor by .01 to .05; and by .01, -.01 and so on.
    let off = (1..=5_u64).map(|seed| with(seed, 0.02 + 0.01 * seed as f64, Some(0.02))).collect();
    let fine: Vec<Summary> =
        (1..=5_u64).map(|seed| with(seed, if seed % 2 == 0 { 0.03 } else { 0.01 }, Some(0.02))).collect();
    let mut old = fine.clone();
    old[2] = with(3, 0.01, None);
    let found = results(&[off, fine, old], 0);
    let above = |place: usize| found[place]["ece"].above_floor;
    close(Some(above(0).unwrap().mean), 0.03);
    close(found[0]["ece"].floor, 0.02);
    assert!(above(0).unwrap().p_holm.unwrap() < 0.05 && above(1).unwrap().p_holm.unwrap() > 0.5);
    // A seed without a floor: means of other seeds do not compare.
    assert_eq!((found[2]["ece"].floor, above(2)), (None, None));
    assert_eq!(found[0]["accuracy"].above_floor, None);
}

#[test]
fn few_seeds_have_no_test() {
    for count in 1..5_u64 {
        let method = |rate: f64| (1..=count).map(move |seed| run(seed, scores(rate * seed as f64, 0.3), &[]));
        let methods = [method(0.1).collect::<Vec<_>>(), method(0.2).collect()];
        let found = results(&methods, 1);
        let worse = &found[0]["accuracy"];
        let difference = worse.difference.unwrap();
        assert_eq!(
            (worse.rank, difference.interval, difference.p, difference.p_holm),
            (Some(2), None, None, None),
            "{count} seeds"
        );
    }
}

#[test]
fn a_score_that_is_not_finite_is_none() {
    let methods = [
        vec![run(1, scores(0.9, f64::NAN), &[]), run(2, scores(0.9, 0.1), &[])],
        vec![run(1, scores(0.8, 0.4), &[]), run(2, scores(0.8, 0.4), &[])],
    ];
    let found = results(&methods, 1);
    assert_eq!((found[0]["nll"].mean, found[0]["nll"].rank), (Some(0.1), None));
    assert_eq!((found[1]["nll"].rank, found[0]["nll"].difference), (Some(1), None));
    // A reference without a rank is none.
    assert_eq!(results(&methods, 0)[1]["nll"].difference, None);
}

#[test]
fn one_seed_has_no_spread_and_no_test() {
    let methods = [vec![run(1, scores(0.9, 0.3), &[])], vec![run(1, scores(0.8, 0.4), &[])]];
    let found = results(&methods, 0);
    assert_eq!((found[1]["accuracy"].std, found[1]["accuracy"].rank), (None, Some(2)));
    assert_eq!(found[1]["accuracy"].difference.unwrap().p, None);
}

#[test]
fn fewer_seeds_have_no_rank_and_no_test() {
    let steps = [1, 2, 3, 4, 5, 6];
    let all = steps.map(|seed| run(seed, scores(0.7 + 0.001 * (seed * seed) as f64, 0.4), &[0.5]));
    let few = steps[1..].iter().map(|&seed| run(seed, scores(0.99, 0.1), &[0.9]));
    let methods = [few.collect(), all.to_vec(), vec![]];
    let found = results(&methods, 1);
    let of = |method: usize| (found[method]["accuracy"].rank, found[method]["accuracy"].difference);
    assert_eq!([of(0), of(1), of(2)], [(None, None), (Some(1), None), (None, None)]);
    assert_eq!(found[0]["accuracy"].against_reference, WinLossTie::default());
    assert_eq!(found[2]["accuracy"].mean, None);
}

#[test]
fn coverage_is_best_near_its_level() {
    let covered = |seed, value| {
        let coverage = Scores::Regression {
            rmse: Some(1.0),
            mae: Some(1.0),
            nll: Some(1.0),
            coverage_50: None,
            coverage_80: None,
            coverage_90: Some(value),
            coverage_95: None,
        };
        run(seed, coverage, &[])
    };
    // Means .90 and .96: the first is nearer to .9, though not on every seed.
    let values = [[0.82, 0.98, 0.84, 0.97, 0.89], [0.95, 0.97, 0.96, 0.97, 0.95]];
    let method = |values: [f64; 5]| (1..).zip(values).map(|(seed, value)| covered(seed, value)).collect();
    let methods: [Vec<Summary>; 2] = values.map(method);
    let mut tested = metrics(&methods[0][0].scores);
    tested.iter_mut().for_each(|metric| metric.tested = true);
    let found = metric_results(&tested, &methods, Some(0));
    let [first, second] = [0, 1].map(|method: usize| &found[method]["coverage_90"]);
    assert_eq!((first.rank, second.rank), (Some(1), Some(2)));
    // Differences of distances: -.03 -.01 0 0 .04, mean 0: t = 0.
    close(second.difference.unwrap().p, 1.0);
}
