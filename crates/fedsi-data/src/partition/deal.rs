//! Partitions that deal a pool out to clients: `labels`, `iid`, `dirichlet`, `shards`.

use fedsi_random::{Purpose, SERVER, Streams};
use rand::seq::SliceRandom as _;

use super::cut::Sides;
use super::groups::units;
use super::proportions::{apportion, dirichlet};
use super::{ClientRows, Table, cut, unequal};
use crate::error::DataError;
use crate::spec::{PartitionKind, PartitionSpec};

/// The third word of the key of [`Purpose::Partition`] streams that are not a class's shuffle.
mod draw {
    /// A client's mix of classes.
    pub(super) const MIX: u64 = 0;
    /// Which of a client's rows are for testing.
    pub(super) const CUT: u64 = 1;
    /// The order of all rows; of the shards. Above the number of any class.
    pub(super) const ROWS: u64 = 1 << 40;
    pub(super) const SHARDS: u64 = 1 << 41;
    /// Added to the class for the shuffle of test rows that follow training rows.
    pub(super) const FOLLOW: u64 = 1 << 42;
}

/// Deals rows to clients and cuts them.
pub(super) fn dealt(
    table: &Table<'_>,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    if let Some(groups) = table.groups {
        return dealt_groups(table, groups, spec, streams);
    }
    let everything = spec.train == 0;
    // Only training rows are dealt where a test file fixes the split: no row of that file is trained on.
    let pool = Rows::shuffled(table, table.train_rows.unwrap_or(table.rows), streams);
    let sizes = sizes(&pool, spec)?;
    if spec.unequal {
        return dealt_unequally(table, &pool, spec, streams);
    }
    let dealt = deal(&pool, spec, &sizes, streams)?;
    if let Some(first) = table.train_rows {
        return Ok(follow(table, spec, first, dealt, streams));
    }
    let clients = dealt.into_iter().enumerate().map(|(client, rows)| {
        let test = if everything {
            cut::test_rows(rows.len(), spec.test_fraction)
        } else {
            spec.test * spec.labels_per_client
        };
        let mut stream = streams.stream(Purpose::Partition, client as u64, draw::CUT);
        cut::divided(table, &rows, test, &mut Sides::new(), &mut stream)
    });
    Ok(clients.collect())
}

/// `dirichlet` with clients of unequal sizes: of each class the shares that were drawn, in the order of the clients.
fn dealt_unequally(
    table: &Table<'_>,
    pool: &Rows,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let available: Vec<usize> = pool.classes.iter().map(Vec::len).collect();
    let wanted = match spec.train {
        0 => available,
        train => {
            let total = spec.clients.saturating_mul(spec.labels_per_client * (train + spec.test));
            unequal::even_counts(&available, total)
        }
    };
    // Rows of a test file follow the training rows, so that nothing is cut off those.
    let test_rows = |rows| if table.train_rows.is_some() { 0 } else { unequal::test_rows(rows, spec) };
    unequal::draw(&wanted, spec, streams, test_rows, |counts| {
        let mut rest: Vec<&[u32]> = pool.classes.iter().map(Vec::as_slice).collect();
        let take = |own: &Vec<usize>| -> Vec<u32> {
            let mut rows = Vec::with_capacity(own.iter().sum());
            for (class, &count) in rest.iter_mut().zip(own) {
                let (block, later) = class.split_at(count.min(class.len()));
                rows.extend_from_slice(block);
                *class = later;
            }
            rows
        };
        let dealt: Vec<Vec<u32>> = counts.iter().map(take).collect();
        let clients = match table.train_rows {
            Some(first) => follow(table, spec, first, dealt, streams),
            None => {
                let cut = |(client, rows): (usize, Vec<u32>)| {
                    let mut stream = streams.stream(Purpose::Partition, client as u64, draw::CUT);
                    cut::divided(table, &rows, test_rows(rows.len()), &mut Sides::new(), &mut stream)
                };
                dealt.into_iter().enumerate().map(cut).collect()
            }
        };
        // By time fewer may be cut off than were asked for, and a test file may have few rows of a class.
        let tested = table.times.is_some() || table.train_rows.is_some();
        let enough = |client: &ClientRows| client.test.len() >= unequal::LEAST_ROWS;
        (!tested || clients.iter().all(enough)).then_some(clients)
    })
}

/// Deals whole groups as if each were a row of its most frequent class, and cuts them by the fraction of rows.
fn dealt_groups(
    table: &Table<'_>,
    groups: &[u32],
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let kept: Vec<u32> = (0..table.rows as u32).filter(|&row| table.keeps(row)).collect();
    let units = units(table, groups, &kept);
    let classes: Vec<u32> = units.iter().map(|unit| unit.class as u32).collect();
    let as_rows = Table {
        rows: units.len(),
        labels: table.labels.map(|_| classes.as_slice()),
        classes: table.classes,
        owners: None,
        train_rows: None,
        kept: None,
        groups: None,
        times: None,
    };
    let pool = Rows::shuffled(&as_rows, units.len(), streams);
    let dealt = deal(&pool, spec, &sizes(&pool, spec)?, streams)?;
    let clients = dealt.into_iter().enumerate().map(|(client, own)| {
        let rows: Vec<u32> = own.iter().flat_map(|&unit| units[unit as usize].rows.iter().copied()).collect();
        let mut stream = streams.stream(Purpose::Partition, client as u64, draw::CUT);
        let test = cut::test_rows(rows.len(), spec.test_fraction);
        cut::divided(table, &rows, test, &mut Sides::new(), &mut stream)
    });
    Ok(clients.collect())
}

/// The rows of each client.
fn deal(
    pool: &Rows,
    spec: &PartitionSpec,
    sizes: &[usize],
    streams: &Streams,
) -> Result<Vec<Vec<u32>>, DataError> {
    Ok(match spec.kind {
        PartitionKind::Labels => labels(pool, spec, spec.train == 0),
        PartitionKind::Dirichlet => mixes(pool, spec, sizes, streams),
        PartitionKind::Shards => shards(pool, spec, sizes, streams)?,
        PartitionKind::Iid | PartitionKind::Natural | PartitionKind::File => shares(pool, sizes),
    })
}

/// The rows there are to deal, shuffled: all together, and class by class.
struct Rows {
    all: Vec<u32>,
    classes: Vec<Vec<u32>>,
}

impl Rows {
    fn shuffled(table: &Table<'_>, rows: usize, streams: &Streams) -> Self {
        let mut all: Vec<u32> = (0..rows as u32).filter(|&row| table.keeps(row)).collect();
        let mut classes: Vec<Vec<u32>> = vec![Vec::new(); table.classes];
        for &row in &all {
            classes[table.class(row)].push(row);
        }
        all.shuffle(&mut streams.stream(Purpose::Partition, SERVER, draw::ROWS));
        for (class, rows) in classes.iter_mut().enumerate() {
            rows.shuffle(&mut streams.stream(Purpose::Partition, SERVER, class as u64));
        }
        Self { all, classes }
    }
}

/// How many rows each client gets; refuses more clients than the rows can feed.
fn sizes(pool: &Rows, spec: &PartitionSpec) -> Result<Vec<usize>, DataError> {
    let rows = pool.all.len();
    let everything = spec.train == 0;
    let per_class = if everything { 1 } else { spec.train.saturating_add(spec.test) };
    let factor = if everything && spec.kind != PartitionKind::Labels { 1 } else { spec.labels_per_client };
    let per_client = per_class.saturating_mul(factor);
    let feasible = if spec.kind == PartitionKind::Labels {
        feasible_by_labels(&pool.classes, spec.labels_per_client, per_class)
    } else {
        rows / per_client
    };
    if spec.clients > feasible {
        let clients = spec.clients;
        return Err(DataError::TooManyClients { kind: spec.kind, clients, feasible, per_client, rows });
    }
    if everything {
        let share = |client| rows / spec.clients + usize::from(client < rows % spec.clients);
        return Ok((0..spec.clients).map(share).collect());
    }
    Ok(vec![per_client; spec.clients])
}

/// The most clients that blocks of `per_class` rows suffice for, where client u holds classes
/// (k u + j) mod C, j < k. The pairs (u, j) count through 0, 1, 2, ... in order, so the class that runs out
/// first decides.
fn feasible_by_labels(classes: &[Vec<u32>], held: usize, per_class: usize) -> usize {
    let first_unfed = classes.iter().enumerate().map(|(class, rows)| {
        // Class c is asked for by the numbers c, c + C, c + 2C, ...; its blocks feed the first of them.
        (rows.len() / per_class).saturating_mul(classes.len()).saturating_add(class)
    });
    first_unfed.min().unwrap_or(0) / held
}

/// `labels`: blocks of each class, in the order of the clients.
fn labels(pool: &Rows, spec: &PartitionSpec, everything: bool) -> Vec<Vec<u32>> {
    let (count, held) = (pool.classes.len(), spec.labels_per_client);
    let slots = spec.clients * held;
    let mut dealt: Vec<Vec<u32>> = vec![Vec::new(); spec.clients];
    for (class, rows) in pool.classes.iter().enumerate() {
        let holders = (class..slots).step_by(count);
        let holding = holders.len();
        let mut rest = rows.as_slice();
        for (place, slot) in holders.enumerate() {
            let size = if everything {
                rows.len() / holding + usize::from(place < rows.len() % holding)
            } else {
                spec.train + spec.test
            };
            let (block, later) = rest.split_at(size.min(rest.len()));
            dealt[slot / held].extend_from_slice(block);
            rest = later;
        }
    }
    dealt
}

/// `iid`: the next rows of the shuffled pool.
fn shares(pool: &Rows, sizes: &[usize]) -> Vec<Vec<u32>> {
    let mut rest = pool.all.as_slice();
    let deal = sizes.iter().map(|&size| {
        let (block, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        block.to_vec()
    });
    deal.collect()
}

/// `dirichlet`: each client's own mix of classes, as far as the classes last.
fn mixes(pool: &Rows, spec: &PartitionSpec, sizes: &[usize], streams: &Streams) -> Vec<Vec<u32>> {
    let mut rest: Vec<&[u32]> = pool.classes.iter().map(Vec::as_slice).collect();
    let deal = sizes.iter().enumerate().map(|(client, &size)| {
        let mut stream = streams.stream(Purpose::Partition, client as u64, draw::MIX);
        let mix = dirichlet(spec.concentration, rest.len(), &mut stream);
        let mut rows = Vec::with_capacity(size);
        while rows.len() < size && rest.iter().any(|class| !class.is_empty()) {
            let mut weights: Vec<f64> = mix
                .iter()
                .zip(&rest)
                .map(|(&share, class)| if class.is_empty() { 0.0 } else { share })
                .collect();
            if weights.iter().sum::<f64>() <= f64::MIN_POSITIVE {
                // Nothing this client wants is left: it takes what there is most of.
                weights = rest.iter().map(|class| class.len() as f64).collect();
            }
            for (class, share) in rest.iter_mut().zip(apportion(&weights, size - rows.len())) {
                let (block, later) = class.split_at(share.min(class.len()));
                rows.extend_from_slice(block);
                *class = later;
            }
        }
        rows
    });
    deal.collect()
}

/// Shards that all clients together may have for each row: beyond one they are empty.
const SHARDS_PER_ROW: usize = 16;

/// `shards`: rows sorted by class, cut into shards that are dealt shuffled. Refuses so many shards that a list of them
/// would be far larger than the data.
fn shards(
    pool: &Rows,
    spec: &PartitionSpec,
    sizes: &[usize],
    streams: &Streams,
) -> Result<Vec<Vec<u32>>, DataError> {
    let most = pool.all.len().saturating_mul(SHARDS_PER_ROW) / spec.clients.max(1);
    if spec.shards_per_client > most.max(1) {
        let expected =
            format!("1 to {}, for {} clients and {} samples", most.max(1), spec.clients, pool.all.len());
        return Err(DataError::setting("partition.shards_per_client", spec.shards_per_client, expected));
    }
    // Where not all rows are wanted, an even share of each class stays.
    let wanted: usize = sizes.iter().sum();
    let class_sizes: Vec<f64> = pool.classes.iter().map(|class| class.len() as f64).collect();
    let kept = apportion(&class_sizes, wanted);
    let sorted: Vec<u32> =
        pool.classes.iter().zip(kept).flat_map(|(class, kept)| class.iter().copied().take(kept)).collect();
    let count = spec.shards_per_client;
    let mut slots: Vec<(usize, usize)> = sizes
        .iter()
        .enumerate()
        .flat_map(|(client, &size)| {
            (0..count).map(move |shard| (client, size / count + usize::from(shard < size % count)))
        })
        .collect();
    slots.shuffle(&mut streams.stream(Purpose::Partition, SERVER, draw::SHARDS));
    let mut dealt: Vec<Vec<u32>> = sizes.iter().map(|&size| Vec::with_capacity(size)).collect();
    let mut rest = sorted.as_slice();
    for (client, size) in slots {
        let (shard, later) = rest.split_at(size.min(rest.len()));
        dealt[client].extend_from_slice(shard);
        rest = later;
    }
    Ok(dealt)
}

/// Deals the rows of a test file: each class in proportion to the clients' training rows of that class.
fn follow(
    table: &Table<'_>,
    spec: &PartitionSpec,
    first: usize,
    dealt: Vec<Vec<u32>>,
    streams: &Streams,
) -> Vec<ClientRows> {
    // By class, who holds how many: a table of all classes and clients may be far larger than the data.
    let mut holders: Vec<Vec<(usize, f64)>> = vec![Vec::new(); table.classes];
    for (client, rows) in dealt.iter().enumerate() {
        for &row in rows {
            let own = &mut holders[table.class(row)];
            match own.last_mut() {
                Some((last, count)) if *last == client => *count += 1.0,
                _ => own.push((client, 1.0)),
            }
        }
    }
    let mut test_rows: Vec<Vec<u32>> = vec![Vec::new(); table.classes];
    for row in (first as u32..table.rows as u32).filter(|&row| table.keeps(row)) {
        test_rows[table.class(row)].push(row);
    }
    let mut clients: Vec<ClientRows> =
        dealt.into_iter().map(|train| ClientRows { name: None, train, test: Vec::new() }).collect();
    for (class, (mut rows, holders)) in test_rows.into_iter().zip(holders).enumerate() {
        let mut weights = vec![0.0; clients.len()];
        for (client, count) in holders {
            weights[client] = count;
        }
        if spec.kind != PartitionKind::Labels && weights.iter().all(|&weight| weight == 0.0) {
            // A class that nobody trained on is still tested: leaving it out would flatter the result.
            weights.fill(1.0);
        }
        rows.shuffle(&mut streams.stream(Purpose::Partition, SERVER, draw::FOLLOW + class as u64));
        let mut rest = rows.as_slice();
        for (client, share) in clients.iter_mut().zip(apportion(&weights, rows.len())) {
            let (block, later) = rest.split_at(share.min(rest.len()));
            client.test.extend_from_slice(block);
            rest = later;
        }
    }
    clients
}
