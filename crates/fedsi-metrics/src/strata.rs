//! Exact tests of new values beside known ones, where both come from several clients: each client's new values are compared
//! with its own known ones, and counts are added up over clients.

use statrs::function::gamma::ln_gamma;

use crate::proportion::fisher_test;

/// Steps that adding up clients' distributions may cost; beyond, clients are tested one by one.
const MOST_STEPS: usize = 100_000_000;

/// How many new values of a client are beyond all its known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exceedances {
    /// Known values.
    pub known: usize,
    /// New values.
    pub new: usize,
    /// New values below the smallest known one.
    pub below: usize,
    /// New values above the largest known one.
    pub above: usize,
}

/// Whether more new values are beyond the smallest or the largest known value than chance explains, were new and known
/// values of a client drawn alike. Of n known and m new values, at least k are beyond the largest with probability
/// C(n + m - k, n) / C(n + m, n), whatever their continuous distribution; ties only make it less likely. Over clients the
/// counts are added, with the exact distribution of their sum; two-sided: twice the smaller tail, at most 1. 1 where nothing
/// is beyond. Clients without known or new values say nothing. O(values beyond x new values), or O(new values) where that
/// is too much: then twice the smallest tail of any client times the number of clients.
pub fn exceedance_test(clients: &[Exceedances]) -> f64 {
    let clients: Vec<&Exceedances> = clients.iter().filter(|one| one.known > 0 && one.new > 0).collect();
    let tail = |count: &dyn Fn(&Exceedances) -> usize| {
        let total: usize = clients.iter().map(|one| count(one).min(one.new)).sum();
        if let [one] = clients[..] {
            return exceedance_tail(one.known, one.new, total);
        }
        let steps = steps(clients.iter().map(|one| one.new), total);
        if steps > MOST_STEPS {
            let tails = clients.iter().map(|one| exceedance_tail(one.known, one.new, count(one)));
            return tails.fold(1.0, f64::min) * clients.len() as f64;
        }
        let parts: Vec<Vec<f64>> = clients.iter().map(|one| exceedance_chances(one.known, one.new)).collect();
        tail_of_sum(&parts, total)
    };
    let smaller = tail(&|one| one.below).min(tail(&|one| one.above));
    (2.0 * smaller).clamp(f64::MIN_POSITIVE, 1.0)
}

/// P(at least `beyond` of `new` values are above the largest of `known` ones).
fn exceedance_tail(known: usize, new: usize, beyond: usize) -> f64 {
    let ratio = |one: usize| (new.saturating_sub(one)) as f64 / (known + new - one) as f64;
    (0..beyond.min(new)).map(ratio).product()
}

/// P(just k of them), for every k: C(n + m - k - 1, n - 1) / C(n + m, n).
fn exceedance_chances(known: usize, new: usize) -> Vec<f64> {
    let (n, m) = (known as f64, new as f64);
    let mut chance = n / (n + m);
    let mut chances = vec![chance];
    for k in 0..new {
        // The last ratio of one known value is 1 / 1.
        chance *= (m - k as f64) / (n + m - k as f64 - 1.0);
        chances.push(chance);
    }
    chances
}

/// A share of a client's new values and of its known ones, each as (successes, trials).
pub type SharePair = ((usize, usize), (usize, usize));

/// Whether the share of successes differs between new and known values, client by client: Fisher's exact test with clients as
/// strata, by the sum of the new successes given all margins. Of one client it is [`fisher_test`]. Two-sided: twice the
/// smaller tail, at most 1. Clients without new or known trials say nothing. Where adding up is too much, the smallest p of
/// any client times the number of clients.
pub fn stratified_fisher_test(clients: &[SharePair]) -> f64 {
    let sound = |((k, n), (l, m)): &SharePair| *n > 0 && *m > 0 && k <= n && l <= m;
    let clients: Vec<SharePair> = clients.iter().copied().filter(sound).collect();
    if let [(new, known)] = clients[..] {
        return fisher_test(new, known).clamp(f64::MIN_POSITIVE, 1.0);
    }
    let least = |((k, _), (l, m)): &SharePair| (k + l).saturating_sub(*m);
    let most = |((k, n), (l, _)): &SharePair| (k + l).min(*n);
    let above: usize = clients.iter().map(|one| one.0.0 - least(one)).sum();
    let below: usize = clients.iter().map(|one| most(one) - one.0.0).sum();
    let widths = || clients.iter().map(|one| most(one) - least(one));
    if steps(widths(), above).saturating_add(steps(widths(), below)) > MOST_STEPS {
        let smallest = clients.iter().map(|&(new, known)| fisher_test(new, known)).fold(1.0, f64::min);
        return (smallest * clients.len() as f64).clamp(f64::MIN_POSITIVE, 1.0);
    }
    let ln_choose = |of: usize, out: usize| {
        let ln = |number: usize| ln_gamma(number as f64 + 1.0);
        ln(of) - ln(out) - ln(of - out)
    };
    let chances = |one: &SharePair| -> Vec<f64> {
        let ((k, n), (l, m)) = *one;
        let whole = ln_choose(n + m, k + l);
        (least(one)..=most(one)).map(|x| (ln_choose(n, x) + ln_choose(m, k + l - x) - whole).exp()).collect()
    };
    let mut parts: Vec<Vec<f64>> = clients.iter().map(chances).collect();
    let upper = tail_of_sum(&parts, above);
    parts.iter_mut().for_each(|part| part.reverse());
    let lower = tail_of_sum(&parts, below);
    (2.0 * upper.min(lower)).clamp(f64::MIN_POSITIVE, 1.0)
}

/// What [`tail_of_sum`] costs.
fn steps(widths: impl Iterator<Item = usize>, total: usize) -> usize {
    widths.fold(0, |sum: usize, width| sum.saturating_add(width.min(total).saturating_mul(total)))
}

/// P(the sum of independent counts is at least `total`), from the chances of each count 0, 1, and so on. Adds up what is at
/// or above, so that small tails stay exact.
fn tail_of_sum(parts: &[Vec<f64>], total: usize) -> f64 {
    if total == 0 {
        return 1.0;
    }
    // below[j]: P(the sum so far is j).
    let mut below = vec![0.0; total];
    below[0] = 1.0;
    let mut at_least = 0.0;
    for part in parts {
        // tails[i]: P(this count is at least i).
        let mut tails = part.clone();
        (0..tails.len().saturating_sub(1)).rev().for_each(|at| tails[at] += tails[at + 1]);
        let mut next = vec![0.0; total];
        for (sum, &chance) in below.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
            at_least += chance * tails.get(total - sum).copied().unwrap_or(0.0);
            for (own, place) in part.iter().zip(&mut next[sum..]) {
                *place += chance * own;
            }
        }
        below = next;
    }
    at_least
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_random::{Purpose, Streams};
    use rand::RngExt as _;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    fn above(known: usize, new: usize, above: usize) -> Exceedances {
        Exceedances { known, new, below: 0, above }
    }

    #[test]
    fn exceedances_worked_by_hand() {
        // Of 9 known values and 1 new one, the new one is the largest in one of ten orders.
        close(exceedance_tail(9, 1, 1), 0.1);
        // C(3 + 2 - 2, 3) / C(5, 3) = 1/10: both new ones are the two largest of five. At least one: C(4, 3) / 10.
        close(exceedance_tail(3, 2, 2), 0.1);
        close(exceedance_tail(3, 2, 1), 0.4);
        // C(107, 100) / C(110, 100) = 10 * 9 * 8 / (110 * 109 * 108).
        close(exceedance_tail(100, 10, 3), 720.0 / 1_294_920.0);
        close(exceedance_test(&[above(100, 10, 3)]), 1_440.0 / 1_294_920.0);
        assert_eq!(exceedance_test(&[above(100, 10, 0)]), 1.0, "nothing is beyond");
        assert_eq!(exceedance_test(&[above(0, 10, 10)]), 1.0, "nothing is known");
        assert_eq!(exceedance_test(&[]), 1.0);
        // Of one known value each number of exceedances is as likely as any other.
        close(exceedance_tail(1, 4, 3), 2.0 / 5.0);
        for (n, m) in [(1, 4), (3, 2), (20, 30)] {
            let chances = exceedance_chances(n, m);
            for k in 0..=m {
                close(chances[k..].iter().sum(), exceedance_tail(n, m, k));
            }
        }
        let p = exceedance_test(&[above(100_000, 100_000, 100_000)]);
        assert!(p > 0.0 && p < 1e-300, "never quite 0: {p}");
    }

    #[test]
    fn counts_of_clients_are_added_up() {
        // Two clients of one known and one new value: each above with 1/2, both with 1/4; two-sided 1/2.
        close(exceedance_test(&[above(1, 1, 1); 2]), 0.5);
        close(exceedance_test(&[above(9, 1, 1), above(9, 1, 0)]), 2.0 * 0.19);
        // One of ten new values in each of 20 clients says nothing of one client, and much of all.
        assert!(exceedance_test(&[above(100, 10, 1)]) > 0.1);
        assert!(exceedance_test(&[above(100, 10, 1); 20]) < 1e-6);
        // Too much to add up: the clearest client decides.
        let many = vec![above(5_000, 20_000, 20_000); 3];
        assert!(exceedance_test(&many) < 1e-100);
    }

    #[test]
    fn shares_of_clients_are_added_up() {
        // The lady tasting tea: 3 of 4 against 1 of 4: P(X >= 3) = 17/70.
        close(stratified_fisher_test(&[((3, 4), (1, 4))]), 34.0 / 70.0);
        // Twice: P(sum >= 6) of two such counts with chances (1, 16, 36, 16, 1) / 70: 16*16 + 2*36 + 2*16 + 1 of 4900.
        let tail = (16.0 * 16.0 + 2.0 * 36.0 + 2.0 * 16.0 + 1.0) / 4_900.0;
        close(stratified_fisher_test(&[((3, 4), (1, 4)); 2]), 2.0 * tail);
        // A client that never measures, and one that always does, are alike before and after.
        assert_eq!(stratified_fisher_test(&[((50, 50), (200, 200)), ((0, 50), (0, 200))]), 1.0);
        assert_eq!(stratified_fisher_test(&[((0, 0), (1, 2))]), 1.0);
        assert!(stratified_fisher_test(&[((30, 60), (0, 400)), ((0, 10), (0, 10))]) < 1e-10);
        assert!(stratified_fisher_test(&[((20_000, 40_000), (1_000, 40_000)); 2]) < 1e-100, "one by one");
    }

    /// Values of one distribution raise alarms at most as often as the level says, and not much more seldom where counts are
    /// many.
    #[test]
    fn alarms_keep_the_level() {
        let (repetitions, mut alarms, mut missing_alarms) = (2_000, 0, 0);
        for repetition in 0..repetitions {
            let mut rng = Streams::new(7).stream(Purpose::Resampling, 1, repetition);
            let (mut clients, mut shares) = (Vec::new(), Vec::new());
            for client in 0..4 {
                let (known, new) = (20 + 10 * client, 60);
                let mut values = |count: usize| -> Vec<f64> { (0..count).map(|_| rng.random()).collect() };
                let (old, own) = (values(known), values(new));
                let ends =
                    old.iter().fold((1.0, 0.0), |(low, high): (f64, f64), &x| (low.min(x), high.max(x)));
                clients.push(Exceedances {
                    known,
                    new,
                    below: own.iter().filter(|&&x| x < ends.0).count(),
                    above: own.iter().filter(|&&x| x > ends.1).count(),
                });
                let few = |values: &[f64]| (values.iter().filter(|&&x| x < 0.2).count(), values.len());
                shares.push((few(&own), few(&old)));
            }
            alarms += usize::from(exceedance_test(&clients) < 0.05);
            missing_alarms += usize::from(stratified_fisher_test(&shares) < 0.05);
        }
        let shares = [alarms, missing_alarms].map(|count| count as f64 / repetitions as f64);
        // A standard error is 0.005.
        assert!(shares.iter().all(|share| (0.02..0.065).contains(share)), "{shares:?}");
    }
}
