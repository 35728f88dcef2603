//! The account of epsilon beside Google's dp-accounting: `golden/privacy/epsilons.py` wrote the numbers.
#![allow(clippy::unwrap_used)]

use fedsi_fl::server::Accountant;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    delta: f64,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    q: f64,
    noise: f64,
    rounds: u64,
    /// The true epsilon is not below this,
    lower: f64,
    /// nor above this.
    upper: f64,
    renyi: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("golden/privacy/epsilons.json")).unwrap()
}

/// Never below what is true at least, nor noticeably above what is true at most.
#[test]
fn epsilon_is_a_bound_and_a_tight_one() {
    let Reference { delta, rows } = reference();
    assert_eq!(rows.len(), 4 * 5 * 5);
    for Row { q, noise, rounds, lower, upper, .. } in rows {
        let found = Accountant::new(q, noise, delta).epsilon(rounds);
        let place = format!("q {q}, noise {noise}, {rounds} rounds");
        // Beyond 700 dp-accounting leaves out the part with e^epsilon, which overflows: an upper bound still, no lower one.
        assert!(found >= lower || lower > 700.0, "{place}: {found} is below {lower}");
        assert!(found <= 1.002 * upper + 0.001, "{place}: {found} is far above {upper}");
    }
}

/// The Rényi account alone is that of dp-accounting, whose series for fractional orders is less exact: to three digits, and
/// never looser. With little noise and many participants the series does not converge, and its bound is far looser.
#[test]
fn the_renyi_account_is_that_of_others() {
    let Reference { delta, rows } = reference();
    for Row { q, noise, rounds, renyi, .. } in rows {
        let found = Accountant::new(q, noise, delta).renyi_epsilon(rounds);
        let converges = q == 1.0 || noise >= 2.0 && q <= 0.1;
        let near = found >= 0.999 * renyi || !converges;
        assert!(
            near && found <= renyi * (1.0 + 1e-6),
            "q {q}, noise {noise}, {rounds} rounds: {found}, not {renyi}"
        );
    }
}

#[test]
fn more_rounds_more_clients_and_less_noise_tell_more() {
    let of = |q, noise, rounds| Accountant::new(q, noise, 1e-5).epsilon(rounds);
    assert!(of(0.1, 1.0, 100) > of(0.1, 1.0, 50) && of(0.1, 1.0, 50) > of(0.1, 1.0, 1));
    assert!(of(0.2, 1.0, 50) > of(0.1, 1.0, 50) && of(1.0, 1.0, 50) > of(0.9, 1.0, 50));
    assert!(of(0.1, 0.5, 50) > of(0.1, 1.0, 50));
    assert_eq!(of(0.1, 1.0, 0), 0.0);
    assert!(of(0.1, 0.01, 10).is_finite() && of(1.0, 1e6, 1) >= 0.0);
}
