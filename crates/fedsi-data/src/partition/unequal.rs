//! `dirichlet` with clients of unequal sizes: for every class the clients' shares of it are drawn from a symmetric Dirichlet
//! distribution (Yurochkin et al. 2019, Hsu et al. 2019), so that clients differ in how much they have as in what.

use fedsi_random::{Purpose, SERVER, Streams};

use super::cut;
use super::proportions::{apportion, dirichlet};
use crate::error::DataError;
use crate::spec::PartitionSpec;

/// Training rows that every client has at least, and test rows where any are cut off: where a draw gives a client fewer, all
/// shares are drawn again.
pub(crate) const LEAST_ROWS: usize = 10;

/// How often shares are drawn before the settings are refused.
const TRIES: u64 = 1000;

/// The third word of the keys of the streams that shares are drawn from, one for each try: above what other draws of a
/// partition have.
const SHARES: u64 = 1 << 43;

/// How many rows of each class every client gets.
pub(crate) type ClassCounts = Vec<Vec<usize>>;

/// How many rows are dealt of each class, where there are so many: `total` as evenly as the classes last; ties go to the
/// lower class.
pub(crate) fn even_counts(available: &[usize], total: usize) -> Vec<usize> {
    let mut counts = vec![0; available.len()];
    let mut left = total.min(available.iter().sum());
    while left > 0 {
        let open: Vec<f64> =
            counts.iter().zip(available).map(|(have, most)| if have < most { 1.0 } else { 0.0 }).collect();
        let mut given = 0;
        for ((have, &most), share) in counts.iter_mut().zip(available).zip(apportion(&open, left)) {
            let more = share.min(most - *have);
            *have += more;
            given += more;
        }
        left -= given;
    }
    counts
}

/// How many test rows are cut off a client that has so many rows: in the proportion of `train` and `test`, or where train = 0
/// by the fraction.
pub(crate) fn test_rows(rows: usize, spec: &PartitionSpec) -> usize {
    let fraction = match spec.train {
        0 => spec.test_fraction,
        train => spec.test as f64 / (train as f64 + spec.test as f64),
    };
    cut::test_rows(rows, fraction)
}

/// Draws how many rows of each class every client gets, until every client has enough: as many rows as can be cut into
/// [`LEAST_ROWS`] for each side, and `accept` makes something of the draw. Costs at most a thousand draws of clients x classes.
///
/// # Errors
/// No draw in which every client has enough, with what to change.
pub(crate) fn draw<T>(
    class_rows: &[usize],
    spec: &PartitionSpec,
    streams: &Streams,
    test_rows: impl Fn(usize) -> usize,
    mut accept: impl FnMut(ClassCounts) -> Option<T>,
) -> Result<T, DataError> {
    let least = if test_rows(2) > 0 { 2 * LEAST_ROWS } else { LEAST_ROWS };
    let total: usize = class_rows.iter().sum();
    // What no draw can give is not tried.
    let tries = if total / least < spec.clients { 0 } else { TRIES };
    let drawn = (0..tries).find_map(|attempt| {
        let counts = shares(class_rows, spec, streams, attempt);
        let enough = counts.iter().all(|own| {
            let rows: usize = own.iter().sum();
            let tested = test_rows(rows);
            rows - tested >= LEAST_ROWS && (tested == 0 || tested >= LEAST_ROWS)
        });
        if enough { accept(counts) } else { None }
    });
    drawn.ok_or_else(|| {
        let expected = format!(
            "false (clients of one size), a larger partition.concentration, fewer clients or more rows: in {tries} draws of \
             {total} rows for {} clients one had always fewer than {LEAST_ROWS} training or {LEAST_ROWS} test rows",
            spec.clients
        );
        DataError::setting("partition.unequal", true, expected)
    })
}

/// One draw: class by class, from the stream of this try.
fn shares(class_rows: &[usize], spec: &PartitionSpec, streams: &Streams, attempt: u64) -> ClassCounts {
    let mut stream = streams.stream(Purpose::Partition, SERVER, SHARES + attempt);
    let mut counts: ClassCounts = vec![vec![0; class_rows.len()]; spec.clients];
    for (class, &rows) in class_rows.iter().enumerate() {
        let weights = dirichlet(spec.concentration, spec.clients, &mut stream);
        for (own, count) in counts.iter_mut().zip(apportion(&weights, rows)) {
            own[class] = count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::tests::{counts, disjoint, table};
    use crate::partition::{ClientRows, partition};
    use crate::spec::PartitionKind;

    fn unequal(clients: usize, train: usize, test: usize, concentration: f64) -> PartitionSpec {
        let kind = PartitionKind::Dirichlet;
        PartitionSpec { kind, concentration, unequal: true, ..PartitionSpec::labels(clients, train, test) }
    }

    fn sizes(clients: &[ClientRows]) -> Vec<usize> {
        clients.iter().map(|client| client.train.len() + client.test.len()).collect()
    }

    /// Ten classes of MNIST's size, small: 50,000 of 70,000 rows, 5% of them for training.
    #[test]
    fn clients_of_mnist_differ_in_size_and_classes() {
        let labels: Vec<u32> = (0..70_000).map(|row| row % 10).collect();
        let spec = unequal(10, 50, 950, 0.1);
        for seed in 1..=20 {
            let clients = partition(&table(&labels, 10), &spec, seed).unwrap();
            assert!(disjoint(&clients));
            let sizes = sizes(&clients);
            assert_eq!(sizes.iter().sum::<usize>(), 50_000);
            assert!(sizes.iter().max() > sizes.iter().min().map(|least| 2 * least).as_ref(), "{sizes:?}");
            let mut of_class = vec![0; 10];
            for client in &clients {
                assert!(client.train.len() >= LEAST_ROWS && client.test.len() >= LEAST_ROWS);
                let rows = client.train.len() + client.test.len();
                assert_eq!(client.test.len(), (0.95 * rows as f64).round() as usize);
                let own: Vec<u32> = client.train.iter().chain(&client.test).copied().collect();
                for (sum, count) in of_class.iter_mut().zip(counts(&own, &labels, 10)) {
                    *sum += count;
                }
            }
            assert_eq!(of_class, [5000; 10], "as many of each class");
        }
    }

    /// A hundred clients of few rows need many draws, and get one.
    #[test]
    fn a_hundred_clients_are_drawn_again_until_all_have_enough() {
        let labels: Vec<u32> = (0..70_000).map(|row| row % 10).collect();
        let clients = partition(&table(&labels, 10), &unequal(100, 50, 90, 0.1), 1).unwrap();
        assert!(clients.iter().all(|client| client.train.len().min(client.test.len()) >= LEAST_ROWS));
    }

    #[test]
    fn what_cannot_be_drawn_says_what_to_change() {
        let labels: Vec<u32> = (0..2000).map(|row| row % 10).collect();
        for spec in [unequal(50, 2, 2, 1e-6), unequal(100, 1, 1, 1e6)] {
            let error = partition(&table(&labels, 10), &spec, 1).unwrap_err().to_string();
            assert!(error.starts_with("partition.unequal = true: expected false"), "{error}");
            assert!(error.contains("partition.concentration, fewer clients or more rows"), "{error}");
        }
        let iid = PartitionSpec { kind: PartitionKind::Iid, ..unequal(2, 20, 20, 1.0) };
        let error = partition(&table(&labels, 10), &iid, 1).unwrap_err().to_string();
        assert!(error.contains("partition.kind = \"dirichlet\""), "{error}");
    }

    #[test]
    fn rows_are_dealt_evenly_over_classes_as_far_as_they_last() {
        assert_eq!(even_counts(&[10, 10, 10], 7), [3, 2, 2]);
        assert_eq!(even_counts(&[1, 10, 4], 12), [1, 7, 4]);
        assert_eq!(even_counts(&[1, 2, 3], 100), [1, 2, 3], "all there are");
        assert_eq!(even_counts(&[0, 5], 3), [0, 3]);
    }

    proptest! {
        /// Whatever the pool: an error, or disjoint clients, all rows that were asked for, no client below the minimum, the
        /// same for the same seed.
        #[test]
        fn clients_are_disjoint_and_have_enough(
            labels in prop::collection::vec(0_u32..5, 0..900),
            clients in 1_usize..8,
            (train, test) in (0_usize..20, 0_usize..20),
            concentration in 0.05_f64..10.0,
            test_fraction in 0.0_f64..0.9,
            seed in any::<u64>(),
        ) {
            let spec = PartitionSpec { labels_per_client: 3, test_fraction, ..unequal(clients, train, test, concentration) };
            if let Ok(dealt) = partition(&table(&labels, 5), &spec, seed) {
                prop_assert_eq!(dealt.len(), clients);
                prop_assert!(disjoint(&dealt));
                let total = if train == 0 { labels.len() } else { clients * 3 * (train + test) };
                prop_assert_eq!(sizes(&dealt).iter().sum::<usize>(), total);
                for client in &dealt {
                    prop_assert!(client.train.len() >= LEAST_ROWS);
                    prop_assert!(client.test.is_empty() || client.test.len() >= LEAST_ROWS);
                }
                prop_assert_eq!(dealt, partition(&table(&labels, 5), &spec, seed).unwrap());
            }
        }
    }
}
