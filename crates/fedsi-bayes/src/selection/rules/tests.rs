//! What each rule takes.

use fedsi_nn::{LayerSpec, Layout, Network};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use proptest::prelude::*;

use super::*;
use crate::curvature::Curvature;
use crate::selection::Candidates;

/// 0.weight 0..6, 0.bias 6..8, 2.weight 8..14, 2.bias 14..17, the head 4.weight 17..20 and 4.bias 20.
fn layout() -> Layout {
    let layers =
        [LayerSpec::Linear(2), LayerSpec::Relu, LayerSpec::Linear(3), LayerSpec::Relu, LayerSpec::Linear(1)];
    Network::new(&[3], &layers).unwrap().layout().clone()
}

fn rng(seed: u64) -> ChaCha8Rng {
    Streams::new(seed).stream(Purpose::Initialisation, 0, 0)
}

/// Chooses from a network of one long weight (and one bias) as many candidates as `ggn` has.
fn choose(
    rule: &dyn SelectionRule,
    ggn: &[f64],
    jacobian: &[f64],
    values: &[f64],
    size: usize,
    seed: u64,
) -> Vec<usize> {
    let network = Network::new(&[ggn.len()], &[LayerSpec::Linear(1)]).unwrap();
    let curvature = Curvature { ggn: ggn.to_vec(), jacobian: jacobian.to_vec() };
    let mut parameters = values.to_vec();
    parameters.push(0.0);
    let prior = vec![0.5; ggn.len()];
    let candidates =
        Candidates::new(network.layout(), 0..ggn.len(), &curvature, &prior, &parameters).unwrap();
    rule.select(&candidates, size, &mut rng(seed)).unwrap().indices().to_vec()
}

fn by_curvature(rule: &dyn SelectionRule, ggn: &[f64], size: usize) -> Vec<usize> {
    choose(rule, ggn, &vec![1.0; ggn.len()], &vec![0.0; ggn.len()], size, 1)
}

#[test]
fn variance_takes_the_least_curved_and_breaks_ties_by_index() {
    let ggn = [1.0, 0.0, 3.0, 0.0, 2.0, 0.0];
    assert_eq!(by_curvature(&Variance, &ggn, 1), [1]);
    assert_eq!(by_curvature(&Variance, &ggn, 2), [1, 3]);
    assert_eq!(by_curvature(&Variance, &ggn, 4), [0, 1, 3, 5]);
    assert_eq!(by_curvature(&Variance, &ggn, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(by_curvature(&Variance, &[0.0; 9], 4), [0, 1, 2, 3]);
}

#[test]
fn the_prior_counts_as_much_as_the_data() {
    let layout = layout();
    // 1/v = h + 1/g: 3, 4, 2, 2 and so on; the candidates start at 8.
    let curvature = Curvature { ggn: vec![2.0, 2.0, 1.0, 0.0, 9.0, 9.0], jacobian: vec![1.0; 6] };
    let prior = [1.0, 0.5, 1.0, 0.5, 1.0, 1.0];
    let parameters = [0.0; 21];
    let candidates = Candidates::new(&layout, 8..14, &curvature, &prior, &parameters).unwrap();
    let chosen = |size| Variance.select(&candidates, size, &mut rng(1)).unwrap().indices().to_vec();
    assert_eq!(chosen(1), [10]);
    assert_eq!(chosen(2), [10, 11]);
    assert_eq!(chosen(3), [8, 10, 11]);
}

#[test]
fn live_takes_parameters_without_curvature_last() {
    let ggn = [1.0, 0.0, 3.0, 0.0, 2.0, 0.0];
    assert_eq!(by_curvature(&Live, &ggn, 2), [0, 4]);
    assert_eq!(by_curvature(&Live, &ggn, 3), [0, 2, 4]);
    assert_eq!(by_curvature(&Live, &ggn, 4), [0, 1, 2, 4]);
    // Rounding may leave a curvature slightly below zero: that counts as none.
    assert_eq!(by_curvature(&Live, &[-1e-18, 5.0], 1), [1]);
}

#[test]
fn live_fills_up_with_parameters_without_curvature() {
    let network = Network::new(&[4], &[LayerSpec::Linear(1)]).unwrap();
    let curvature = Curvature { ggn: vec![0.0, 1.0, 0.0, 0.0], jacobian: vec![0.0; 4] };
    let candidates = Candidates::new(network.layout(), 0..4, &curvature, &[1.0; 4], &[0.0; 5]).unwrap();
    let subnetwork = Live.select(&candidates, 3, &mut rng(1)).unwrap();
    assert_eq!(subnetwork.indices(), [0, 1, 2]);
}

#[test]
fn predictive_weighs_variance_by_sensitivity() {
    // v = 1/(h + 2): 1/2, 1/3, 1/4, 1/2; v * j: 0, 1, 1, 0.5.
    let chosen = |size| choose(&Predictive, &[0., 1., 2., 0.], &[0., 3., 4., 1.], &[0.0; 4], size, 1);
    assert_eq!(chosen(1), [1]);
    assert_eq!(chosen(2), [1, 2]);
    assert_eq!(chosen(3), [1, 2, 3]);
}

#[test]
fn magnitude_takes_the_largest_of_either_sign() {
    let values = [0.1, -3.0, 2.0, -0.0, 0.0, 3.0];
    let chosen = |size| choose(&Magnitude, &[1.0; 6], &[1.0; 6], &values, size, 1);
    assert_eq!(chosen(1), [1]);
    assert_eq!(chosen(3), [1, 2, 5]);
    assert_eq!(chosen(5), [0, 1, 2, 3, 5], "zeros of either sign tie");
}

#[test]
fn a_nan_ranks_last() {
    let ggn = [f64::NAN, 4.0, 2.0, f64::NAN];
    let rules: [&dyn SelectionRule; 4] = [&Variance, &Live, &Predictive, &Leverage];
    for rule in rules {
        assert_eq!(by_curvature(rule, &ggn, 2), [1, 2], "{rule:?}");
        assert_eq!(by_curvature(rule, &ggn, 4), [0, 1, 2, 3], "{rule:?}");
    }
    assert_eq!(choose(&Magnitude, &[1.0; 3], &[1.0; 3], &[f64::NAN, 0.0, -1.0], 2, 1), [1, 2]);
}

#[test]
fn sizes_beyond_the_candidates_are_refused() {
    let layout = layout();
    let curvature = Curvature { ggn: vec![1.0; 8], jacobian: vec![1.0; 8] };
    let parameters = [0.0; 21];
    let candidates = Candidates::new(&layout, 0..8, &curvature, &[1.0; 8], &parameters).unwrap();
    let rules: [&dyn SelectionRule; 6] = [&Variance, &Live, &Predictive, &Leverage, &Random, &Magnitude];
    for rule in rules {
        let refused = |size| rule.select(&candidates, size, &mut rng(1)).unwrap_err().to_string();
        assert_eq!(refused(9), "a subnetwork of 9 parameters cannot be chosen from 8 candidates");
        assert_eq!(refused(0), "a subnetwork needs at least one parameter, found 0 (of 8 candidates)");
        assert_eq!(rule.select(&candidates, 8, &mut rng(1)).unwrap().len(), 8);
    }
}

#[test]
fn layers_are_taken_whole() {
    let layout = layout();
    let body = layout.body();
    let curvature = Curvature { ggn: vec![1.0; 17], jacobian: vec![1.0; 17] };
    let parameters = [0.0; 21];
    let candidates = Candidates::new(&layout, body, &curvature, &[1.0; 17], &parameters).unwrap();
    let chosen = |names: &str| {
        let rule = Rules::builtin().find(&format!("layers:{names}").into()).unwrap();
        rule.select(&candidates, 0, &mut rng(1)).map(|subnetwork| subnetwork.indices().to_vec())
    };
    assert_eq!(chosen("0").unwrap(), (0..8).collect::<Vec<_>>());
    assert_eq!(chosen("2.bias,0.bias").unwrap(), [6, 7, 14, 15, 16]);
    assert_eq!(chosen("0.weight,0,0").unwrap(), (0..8).collect::<Vec<_>>());
    // A layer without parameters, the head, and an unknown name.
    for unknown in ["1", "4", "4.weight", "fc"] {
        assert_eq!(
            chosen(&format!("0,{unknown}")).unwrap_err().to_string(),
            format!(
                "no layer or tensor {unknown:?} among the candidates: expected one of 0, 2, 0.weight, 0.bias, \
                 2.weight, 2.bias"
            )
        );
    }
    let rule = Layers::new(["2"]).unwrap();
    assert!(rule.has_own_size() && rule.check(&layout, 0..17, 0) == Ok(9));
}

#[test]
fn random_is_uniform_and_seeded() {
    let (n, size, draws) = (20, 5, 4000);
    let chosen = |seed| choose(&Random, &[1.0; 20], &[1.0; 20], &[0.0; 20], size, seed);
    assert_eq!(chosen(3), chosen(3));
    let mut counts = vec![0_usize; n];
    for seed in 0..draws {
        for index in chosen(seed) {
            counts[index] += 1;
        }
    }
    // Each is taken with probability 1/4: 1000 +- 27. Five deviations.
    assert!(counts.iter().all(|count| count.abs_diff(1000) < 140), "{counts:?}");
}

#[test]
fn leverage_draws_by_weight() {
    // v = 1/2 throughout: weights in the proportion 1 to 3.
    let draws = 8000;
    let first = (0..draws)
        .filter(|&seed| choose(&Leverage, &[0.0; 2], &[1.0, 3.0], &[0.0; 2], 1, seed) == [0])
        .count();
    // A quarter: 2000 +- 39.
    assert!(first.abs_diff(2000) < 200, "{first}");
    // Weights far beyond what a power could hold apart still order by themselves.
    assert_eq!(choose(&Leverage, &[0.0; 3], &[1e-300, 1e300, 1e-300], &[0.0; 3], 1, 7), [1]);
}

#[test]
fn leverage_fills_up_at_random() {
    let jacobian = [0.0, 1.0, 0.0, 0.0];
    let seen: std::collections::BTreeSet<_> =
        (0..50).map(|seed| choose(&Leverage, &[1.0; 4], &jacobian, &[0.0; 4], 2, seed)).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [[0, 1], [1, 2], [1, 3]]);
}

proptest! {
    #[test]
    fn leverage_spends_nothing_on_weightless_candidates(
        jacobian in prop::collection::vec(prop_oneof![Just(0.0), 1e-200..1e3_f64], 1..40),
        share in 0.0..1.0_f64,
        seed in any::<u64>(),
    ) {
        let n = jacobian.len();
        let size = 1 + (share * (n - 1) as f64) as usize;
        let chosen = choose(&Leverage, &vec![1.0; n], &jacobian, &vec![0.0; n], size, seed);
        let weighted = jacobian.iter().filter(|&&j| j > 0.0).count();
        let taken = chosen.iter().filter(|&&index| jacobian[index] > 0.0).count();
        prop_assert_eq!(taken, weighted.min(size));
        prop_assert_eq!(&chosen, &choose(&Leverage, &vec![1.0; n], &jacobian, &vec![0.0; n], size, seed));
    }

    /// The partial selection is the head of a full, stable sort.
    #[test]
    fn a_ranking_rule_takes_the_head_of_the_sorted_list(
        ggn in prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.0..2.0_f64], 1..60),
        share in 0.0..1.0_f64,
    ) {
        let size = 1 + (share * (ggn.len() - 1) as f64) as usize;
        let mut sorted: Vec<usize> = (0..ggn.len()).collect();
        sorted.sort_by(|&a, &b| ggn[a].total_cmp(&ggn[b]));
        let mut expected = sorted[..size].to_vec();
        expected.sort_unstable();
        prop_assert_eq!(by_curvature(&Variance, &ggn, size), expected);
    }

    /// Where scores differ, the choice follows the parameters, not their places.
    #[test]
    fn a_permutation_of_the_candidates_permutes_the_choice(
        order in Just((0..30_usize).collect::<Vec<_>>()).prop_shuffle(),
        size in 1..30_usize,
    ) {
        // Parameter k has curvature k + 1, sensitivity (k + 1)^2 and value -(k + 1).
        let of = |f: fn(f64) -> f64| order.iter().map(|&k| f(k as f64 + 1.0)).collect::<Vec<f64>>();
        let (ggn, jacobian, values) = (of(|k| k), of(|k| k * k), of(|k| -k));
        let identities = |rule: &dyn SelectionRule| {
            let chosen = choose(rule, &ggn, &jacobian, &values, size, 1);
            let mut set: Vec<usize> = chosen.into_iter().map(|place| order[place]).collect();
            set.sort_unstable();
            set
        };
        let (lowest, highest) = ((0..size).collect::<Vec<_>>(), (30 - size..30).collect::<Vec<_>>());
        prop_assert_eq!(identities(&Variance), lowest.clone());
        prop_assert_eq!(identities(&Live), lowest);
        prop_assert_eq!(identities(&Predictive), highest.clone());
        prop_assert_eq!(identities(&Magnitude), highest);
    }
}
